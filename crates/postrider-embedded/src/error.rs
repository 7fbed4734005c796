//! What can go wrong, told to the person who has to mend it.

use crate::Version;
use std::path::PathBuf;
use std::time::Duration;

/// How to get PostgreSQL on the usual systems, and the way around it.
const HOW_TO_INSTALL: &str = "Install the server:
  Debian, Ubuntu   apt-get install postgresql
  Fedora, RHEL     dnf install postgresql-server
  macOS            brew install postgresql
or set POSTRIDER_POSTGRES_BIN to the directory which holds `initdb` and `postgres`,
or use a server that already runs: --database-url or DATABASE_URL.";

/// Why no PostgreSQL programs can be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FindError {
    /// There are none in the usual places, or what is there cannot be used.
    #[error(
        "there are no PostgreSQL server programs ({version} or later) on this machine.\n\
         Looked at:\n{}\n{HOW_TO_INSTALL}",
        bullets(looked_at),
        version = Version::OLDEST.major()
    )]
    NotFound {
        /// Each place, with what was wrong there.
        looked_at: Vec<String>,
    },
    /// A directory that was named on purpose does not serve.
    #[error(
        "{} cannot be used as the directory of PostgreSQL's programs: {reason}",
        directory.display()
    )]
    Unusable {
        /// The directory which should hold `initdb` and `postgres`.
        directory: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// There are no programs here, and fetching them failed as well.
    #[error(
        "there are no PostgreSQL server programs on this machine, and they cannot be downloaded: \
         {reason}\n{HOW_TO_INSTALL}"
    )]
    Download {
        /// What the download answered.
        reason: String,
    },
}

/// Why a private server did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// There is no PostgreSQL to start.
    #[error(transparent)]
    Find(#[from] FindError),
    /// The directory cannot hold a server.
    #[error("{} cannot hold a PostgreSQL server: {reason}", path.display())]
    Directory {
        /// The directory, or the one of its parents that is in the way.
        path: PathBuf,
        /// What is wrong, and what to do.
        reason: String,
    },
    /// A file or a program could not be used.
    #[error("cannot {action}")]
    Io {
        /// What was tried, with the path.
        action: String,
        /// What the operating system answered.
        #[source]
        source: std::io::Error,
    },
    /// The process is root, PostgreSQL refuses to run as root, and there is no account to drop to.
    #[error(
        "PostgreSQL refuses to run as root, and this machine has neither a user `postgres` nor \
         `nobody` to run it as: create one, or start as another user"
    )]
    NoAccount,
    /// `initdb` failed.
    #[error("initdb could not make a database cluster in {}:\n{output}", directory.display())]
    Init {
        /// Where the cluster was to be.
        directory: PathBuf,
        /// What initdb printed.
        output: String,
    },
    /// The data were written by another major version.
    #[error(
        "the data in {} are of PostgreSQL {data_major}, but the programs found are of {found}: set \
         POSTRIDER_POSTGRES_BIN to the programs of version {data_major}, move the data with \
         pg_upgrade, or give another directory",
        directory.display()
    )]
    OtherVersion {
        /// The directory of the server.
        directory: PathBuf,
        /// The major version that wrote the data.
        data_major: String,
        /// The version of the programs.
        found: Version,
    },
    /// Another server works in the directory.
    #[error(
        "another server runs in {}{}: stop it, or give another directory",
        directory.display(),
        in_brackets(owner)
    )]
    AlreadyRunning {
        /// The directory of the server.
        directory: PathBuf,
        /// Who holds it, as far as that is known; may be empty.
        owner: String,
    },
    /// The server ended before it answered.
    #[error("the PostgreSQL server ended ({status}) before it was ready. Its last words:\n{log}")]
    Ended {
        /// The exit status.
        status: String,
        /// The end of its log.
        log: String,
    },
    /// The server runs but did not answer in time.
    #[error(
        "the PostgreSQL server did not answer within {} s: {last}. Its last words:\n{log}",
        limit.as_secs()
    )]
    NotReady {
        /// How long it was waited for.
        limit: Duration,
        /// What the last attempt to connect said.
        last: String,
        /// The end of its log.
        log: String,
    },
    /// Every port tried was taken.
    #[error("there is no free port on 127.0.0.1 for the PostgreSQL server{}", in_brackets(detail))]
    NoPort {
        /// Which port was asked for, if one was; may be empty.
        detail: String,
    },
}

/// Why a private server did not stop as it should.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StopError {
    /// The server process survived every signal, which means that it hangs inside the kernel.
    #[error("the PostgreSQL server (process {pid}) did not end, not even by SIGKILL")]
    Survived {
        /// The process.
        pid: u32,
    },
    /// The temporary data could not be removed.
    #[error("cannot remove the temporary data in {}: remove them by hand", path.display())]
    Cleanup {
        /// What is left over.
        path: PathBuf,
        /// What the operating system answered.
        #[source]
        source: std::io::Error,
    },
}

impl StartError {
    /// An [`StartError::Io`], for use in `map_err`.
    pub(crate) fn io(action: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let action = action.into();
        move |source| Self::Io { action, source }
    }
}

fn bullets(lines: &[String]) -> String {
    lines.iter().map(|line| format!("  - {line}")).collect::<Vec<_>>().join("\n")
}

fn in_brackets(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(" ({text})") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_lacks_postgresql_reads_what_to_install_and_how_to_do_without() {
        let error = FindError::NotFound { looked_at: vec!["PATH: no initdb".into()] };
        let text = error.to_string();
        for expected in [
            "14 or later",
            "  - PATH: no initdb",
            "apt-get install postgresql",
            "dnf install",
            "brew install",
            "--database-url",
            "POSTRIDER_POSTGRES_BIN",
        ] {
            assert!(text.contains(expected), "{expected:?} is missing in:\n{text}");
        }
    }
}
