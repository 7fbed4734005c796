//! PostgreSQL's programs: which directory holds them and of what version they are.
//!
//! A place that was named on purpose (`POSTRIDER_POSTGRES_BIN`) must serve, or it is an error.
//! The usual places are looked at in turn, and the first that serves is taken.

use crate::search;
use crate::{FindError, Version};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The environment variable which names the directory of PostgreSQL's programs.
const BIN_VARIABLE: &str = "POSTRIDER_POSTGRES_BIN";

/// A directory with PostgreSQL's server programs, `initdb` and `postgres`, of a version that
/// Postrider runs on.
///
/// ```no_run
/// let binaries = postrider_embedded::find_binaries()?;
/// println!("PostgreSQL {} in {}", binaries.version(), binaries.directory().display());
/// # Ok::<(), postrider_embedded::FindError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binaries {
    directory: PathBuf,
    version: Version,
}

impl Binaries {
    /// The programs in `directory`. Runs `postgres --version`, so it blocks for some milliseconds.
    ///
    /// # Errors
    ///
    /// [`FindError::Unusable`] when a program is missing, does not run, or is older than
    /// [`Version::OLDEST`].
    pub fn at(directory: impl Into<PathBuf>) -> Result<Self, FindError> {
        let directory = directory.into();
        match version_of(&directory) {
            Ok(version) => Ok(Self { directory, version }),
            Err(reason) => Err(FindError::Unusable { directory, reason }),
        }
    }

    /// The directory which holds the programs.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The version that `postgres --version` told.
    pub fn version(&self) -> Version {
        self.version
    }

    /// The path of `initdb`, which makes a database cluster.
    pub fn initdb(&self) -> PathBuf {
        self.directory.join("initdb")
    }

    /// The path of `postgres`, the server.
    pub fn postgres(&self) -> PathBuf {
        self.directory.join("postgres")
    }
}

/// Finds PostgreSQL's server programs on this machine.
///
/// Looks at the directory in `POSTRIDER_POSTGRES_BIN` and at nothing else if that is set; otherwise
/// at what `pg_config --bindir` says, at `PATH`, and at the places where Debian, Fedora, Homebrew,
/// Postgres.app and a build from source put them, the highest version first. Blocks for some
/// milliseconds, because it runs the programs that it finds.
///
/// # Errors
///
/// [`FindError::Unusable`] when `POSTRIDER_POSTGRES_BIN` is set and does not serve, and
/// [`FindError::NotFound`] when no place serves; its message says what to install.
pub fn find_binaries() -> Result<Binaries, FindError> {
    if let Some(directory) = std::env::var_os(BIN_VARIABLE) {
        return named_on_purpose(PathBuf::from(directory));
    }
    let mut looked_at = Vec::new();
    for place in search::places() {
        match Binaries::at(&place.directory) {
            Ok(binaries) => return Ok(binaries),
            Err(FindError::Unusable { reason, .. }) => {
                looked_at.push(format!("{} ({}): {reason}", place.directory.display(), place.why));
            }
            Err(other) => return Err(other),
        }
    }
    looked_at.push(format!(
        "{BIN_VARIABLE}, pg_config, PATH, and where Debian, Fedora, Homebrew and Postgres.app \
         install: nothing else there"
    ));
    Err(FindError::NotFound { looked_at })
}

/// Finds PostgreSQL's server programs on this machine, like [`find_binaries`], or else downloads
/// them into the user's cache directory, if this crate was built with the feature `download`.
///
/// A download takes about 20 MB and happens once.
///
/// # Errors
///
/// Those of [`find_binaries`], and [`FindError::Download`] when the download fails.
///
/// # Panics
///
/// When called outside a tokio runtime.
pub async fn find_or_download() -> Result<Binaries, FindError> {
    let found =
        tokio::task::spawn_blocking(find_binaries).await.expect("the search does not panic");
    #[cfg(feature = "download")]
    if let Err(FindError::NotFound { .. }) = found {
        return crate::download::binaries().await;
    }
    found
}

fn named_on_purpose(directory: PathBuf) -> Result<Binaries, FindError> {
    Binaries::at(directory).map_err(|error| match error {
        FindError::Unusable { directory, reason } => {
            let reason = format!("{reason} ({BIN_VARIABLE} names it; correct or unset it)");
            FindError::Unusable { directory, reason }
        }
        other => other,
    })
}

/// The version of the programs in `directory`, or what is wrong with them.
fn version_of(directory: &Path) -> Result<Version, String> {
    for program in ["initdb", "postgres"] {
        if !directory.join(program).is_file() {
            return Err(format!("there is no program `{program}` in it"));
        }
    }
    let output = Command::new(directory.join("postgres"))
        .arg("--version")
        .output()
        .map_err(|error| format!("`postgres --version` does not run: {error}"))?;
    let line = String::from_utf8_lossy(&output.stdout);
    let version = Version::parse(&line).ok_or_else(|| {
        format!("`postgres --version` says {:?}, which is no version", line.trim())
    })?;
    if version < Version::OLDEST {
        let oldest = Version::OLDEST.major();
        return Err(format!("it is version {version}; Postrider needs {oldest} or later"));
    }
    Ok(version)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;

    /// A directory with an `initdb` and a `postgres` that prints `says`, for the time of `check`.
    fn with_fake_programs(says: &str, check: impl FnOnce(&Path)) {
        let directory =
            std::env::temp_dir().join(format!("postrider-bin-{}", crate::random::hex(6)));
        std::fs::create_dir(&directory).unwrap();
        for program in ["initdb", "postgres"] {
            let path = directory.join(program);
            std::fs::write(&path, format!("#!/bin/sh\necho '{says}'\n")).unwrap();
            std::fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        }
        check(&directory);
        std::fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn a_version_that_is_too_old_is_refused_by_name() {
        with_fake_programs("postgres (PostgreSQL) 13.9", |directory| {
            let error = named_on_purpose(directory.to_path_buf()).unwrap_err().to_string();
            assert!(error.contains("it is version 13.9; Postrider needs 14 or later"), "{error}");
            assert!(error.contains("correct or unset it"), "{error}");
        });
    }

    #[test]
    fn a_version_of_today_is_taken() {
        with_fake_programs("postgres (PostgreSQL) 17.2", |directory| {
            let binaries = Binaries::at(directory).unwrap();
            assert_eq!(binaries.version().to_string(), "17.2");
            assert_eq!(binaries.initdb(), directory.join("initdb"));
        });
    }

    #[test]
    fn a_directory_without_the_programs_is_refused() {
        let error = Binaries::at("/nonexistent").unwrap_err().to_string();
        assert!(error.contains("no program `initdb`"), "{error}");
    }
}
