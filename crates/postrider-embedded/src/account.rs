//! The account that the server's processes run as.
//!
//! PostgreSQL refuses to run as root. A process which is root, as in most containers, therefore
//! runs the server as an unprivileged user and gives that user the server's directory.

use crate::StartError;
use nix::unistd::{User, geteuid};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Users to run the server as when we are root. The packages of PostgreSQL create `postgres`.
const CANDIDATES: [&str; 2] = ["postgres", "nobody"];

/// The account that the server's processes run as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Account {
    /// The same as this process.
    Ours,
    /// Another one, because we are root.
    Other { uid: u32, gid: u32, name: String },
}

impl Account {
    /// The account for a server whose data, if there are any yet, are in `data`: PostgreSQL insists
    /// on running as the owner of its data.
    ///
    /// # Errors
    ///
    /// [`StartError::NoAccount`] when we are root and there is no account to drop to.
    pub(crate) fn choose(data: &Path) -> Result<Self, StartError> {
        if !geteuid().is_root() {
            return Ok(Self::Ours);
        }
        if let Ok(metadata) = std::fs::metadata(data)
            && metadata.uid() != 0
        {
            let (uid, gid) = (metadata.uid(), metadata.gid());
            return Ok(Self::Other { uid, gid, name: format!("user {uid}") });
        }
        let user = CANDIDATES.iter().find_map(|name| User::from_name(name).ok().flatten());
        let user = user.ok_or(StartError::NoAccount)?;
        Ok(Self::Other { uid: user.uid.as_raw(), gid: user.gid.as_raw(), name: user.name })
    }

    /// Makes `command` run as this account.
    pub(crate) fn apply(&self, command: &mut Command) {
        if let Self::Other { uid, gid, .. } = self {
            command.uid(*uid).gid(*gid);
        }
    }

    /// Gives `path` itself, not what is in it, to this account.
    pub(crate) fn give(&self, path: &Path) -> Result<(), StartError> {
        let Self::Other { uid, gid, name } = self else {
            return Ok(());
        };
        std::os::unix::fs::chown(path, Some(*uid), Some(*gid))
            .map_err(StartError::io(format!("give {} to {name}", path.display())))
    }

    /// Checks that this account can reach `path`: every directory above it must let it pass.
    ///
    /// # Errors
    ///
    /// [`StartError::Directory`] which names the first directory that does not.
    pub(crate) fn check_reach(&self, path: &Path) -> Result<(), StartError> {
        let Self::Other { uid, gid, name } = self else {
            return Ok(());
        };
        let blocked = |directory: &&Path| !passable(directory, *uid, *gid);
        let Some(wall) = path.ancestors().skip(1).find(blocked) else {
            return Ok(());
        };
        Err(StartError::Directory {
            path: path.to_path_buf(),
            reason: format!(
                "we are root, so the server runs as {name}, and {} does not let {name} pass: give \
                 another directory, set TMPDIR to one, or run `chmod o+x {}`",
                wall.display(),
                wall.display()
            ),
        })
    }
}

/// Whether the permission bits of `directory` let the account pass through. What cannot be examined
/// counts as passable: the server itself will complain with the exact reason.
fn passable(directory: &Path, uid: u32, gid: u32) -> bool {
    let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    let Ok(metadata) = std::fs::metadata(directory) else {
        return true;
    };
    let shift = if metadata.uid() == uid {
        6
    } else if metadata.gid() == gid {
        3
    } else {
        0
    };
    metadata.permissions().mode() >> shift & 1 == 1
}

/// Makes `path` absolute, so that it means the same in the server's processes.
pub(crate) fn absolute(path: &Path) -> Result<PathBuf, StartError> {
    std::path::absolute(path)
        .map_err(StartError::io(format!("find out where {} is", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::DirBuilderExt as _;

    #[test]
    fn a_directory_that_bars_the_account_is_named() {
        let wall = std::env::temp_dir().join(format!("postrider-wall-{}", crate::random::hex(6)));
        std::fs::DirBuilder::new().mode(0o700).create(&wall).unwrap();
        let account = Account::Other { uid: 54_321, gid: 54_321, name: "somebody".into() };
        let error = account.check_reach(&wall.join("server")).unwrap_err().to_string();
        std::fs::remove_dir(&wall).unwrap();
        let expected = format!("{} does not let somebody pass", wall.display());
        assert!(error.contains(&expected), "{error}");
    }

    #[test]
    fn our_own_account_is_not_checked() {
        assert!(Account::Ours.check_reach(Path::new("/nonexistent/server")).is_ok());
    }
}
