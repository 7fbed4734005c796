//! The directory of a private server: its data, its password, its log.
//!
//! ```text
//! DIRECTORY/lock           held while a process owns the server
//! DIRECTORY/data/          the database cluster; there only when complete
//! DIRECTORY/data.new/      a cluster in the making
//! DIRECTORY/password       of the superuser; mode 0600
//! DIRECTORY/postgres.log   of the present run
//! DIRECTORY/postgres.log.1 of the run before
//! ```
//!
//! A temporary directory is made anew and removed when dropped. A directory that was given is kept,
//! and refused when it holds anything but the above: as root we would change its owner.

use crate::account::{Account, absolute};
use crate::{StartError, random};
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// What may be in the directory of a server.
const OURS: [&str; 6] = ["lock", "data", "data.new", "password", "postgres.log", "postgres.log.1"];

/// How much of the log an error shows, in lines.
const LOG_LINES: usize = 15;

/// The directory of a private server, owned by this process until dropped.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    temporary: bool,
    account: Account,
    /// Locked as long as it is open, so other processes can tell that the directory is in use.
    _lock: File,
}

impl Directory {
    /// Takes the directory that was given, or makes a temporary one.
    pub(crate) fn take(given: Option<&Path>) -> Result<Self, StartError> {
        let temporary = given.is_none();
        let path = match given {
            Some(path) => absolute(path)?,
            None => absolute(&std::env::temp_dir())?
                .join(format!("postrider-postgres-{}", random::hex(8))),
        };
        let account = Account::choose(&path.join("data"))?;
        account.check_reach(&path)?;
        create_private(&path)?;
        refuse_foreign_contents(&path)?;
        let lock = lock(&path)?;
        account.give(&path)?;
        Ok(Self { path, temporary, account, _lock: lock })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn account(&self) -> &Account {
        &self.account
    }

    pub(crate) fn is_temporary(&self) -> bool {
        self.temporary
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.path.join("data")
    }

    pub(crate) fn data_in_the_making(&self) -> PathBuf {
        self.path.join("data.new")
    }

    pub(crate) fn password_file(&self) -> PathBuf {
        self.path.join("password")
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.path.join("postgres.log")
    }

    /// The major version that wrote the data, or `None` when there are no data yet.
    pub(crate) fn data_major(&self) -> Option<String> {
        let text = std::fs::read_to_string(self.data().join("PG_VERSION")).ok()?;
        Some(text.trim().to_owned())
    }

    /// The superuser's password, from the file.
    pub(crate) fn read_password(&self) -> Result<String, StartError> {
        let file = self.password_file();
        let text = std::fs::read_to_string(&file)
            .map_err(StartError::io(format!("read the password in {}", file.display())))?;
        Ok(text.trim().to_owned())
    }

    /// Writes the superuser's password where only the server's account (and root) can read it.
    pub(crate) fn write_password(&self, password: &str) -> Result<(), StartError> {
        let file = self.password_file();
        let write = || {
            // Removed first, so that the mode holds even if there was a file with another one.
            remove_if_there(&file)?;
            let mut options = OpenOptions::new();
            options.write(true).create_new(true).mode(0o600);
            options.open(&file)?.write_all(password.as_bytes())
        };
        write().map_err(StartError::io(format!("write the password to {}", file.display())))?;
        self.account.give(&file)
    }

    /// Keeps the log of the run before, so that [`Self::last_words`] are those of this run and logs
    /// cannot grow over the runs.
    pub(crate) fn rotate_log(&self) -> Result<(), StartError> {
        let log = self.log();
        match std::fs::rename(&log, self.path.join("postgres.log.1")) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(StartError::io(format!("rename {}", log.display()))(error))
            }
            _ => Ok(()),
        }
    }

    /// The end of the log of the present run, for people to read.
    pub(crate) fn last_words(&self) -> String {
        let bytes = std::fs::read(self.log()).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<_> = text.lines().collect();
        let tail = &lines[lines.len().saturating_sub(LOG_LINES)..];
        if tail.is_empty() { "(its log is empty)".to_owned() } else { tail.join("\n") }
    }

    /// Removes a temporary directory now, so that a failure can be told. Does nothing to others.
    pub(crate) fn remove_if_temporary(&mut self) -> std::io::Result<()> {
        if !self.temporary {
            return Ok(());
        }
        match std::fs::remove_dir_all(&self.path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // Whoever wants to know about a failure calls `remove_if_temporary` before.
        let _ = self.remove_if_temporary();
    }
}

/// Makes the directory, which only its owner may enter, and the directories above it.
fn create_private(path: &Path) -> Result<(), StartError> {
    let create = || {
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        match DirBuilder::new().mode(0o700).create(path) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
            other => other,
        }
    };
    create().map_err(StartError::io(format!("create the directory {}", path.display())))
}

fn refuse_foreign_contents(path: &Path) -> Result<(), StartError> {
    let entries = std::fs::read_dir(path)
        .map_err(StartError::io(format!("read the directory {}", path.display())))?;
    let foreign = entries
        .flatten()
        .map(|entry| entry.file_name())
        .find(|name| !OURS.iter().any(|ours| name == ours));
    let Some(name) = foreign else { return Ok(()) };
    Err(StartError::Directory {
        path: path.to_path_buf(),
        reason: format!(
            "it holds {name:?}, which is not ours: give an empty directory, or one that does not \
             exist yet"
        ),
    })
}

/// Locks the directory for this process. The lock ends with the process, however it ends.
fn lock(path: &Path) -> Result<File, StartError> {
    let file = path.join("lock");
    let action = || format!("lock {}", file.display());
    let lock = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&file)
        .map_err(StartError::io(action()))?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(StartError::AlreadyRunning {
            directory: path.to_path_buf(),
            owner: "a living process holds its lock".to_owned(),
        }),
        Err(TryLockError::Error(error)) => Err(StartError::io(action())(error)),
    }
}

fn remove_if_there(file: &Path) -> std::io::Result<()> {
    match std::fs::remove_file(file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
