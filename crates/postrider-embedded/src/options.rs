//! How a private server is to be started.

use crate::Binaries;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// Settings of every private server, which [`ServerOptions::setting`] can override.
const SETTINGS: [(&str, &str); 6] = [
    // Tests open many connections at the same time, each of them idle for most of it.
    ("max_connections", "200"),
    // So that code which uses two-phase commit can be tried.
    ("max_prepared_transactions", "20"),
    // So that logical decoding can be tried.
    ("wal_level", "logical"),
    ("shared_buffers", "128MB"),
    ("timezone", "UTC"),
    ("log_timezone", "UTC"),
];

/// Settings which trade the data's safety for speed. `synchronous_commit` stays on: without fsync
/// it costs next to nothing, and without it a test that crashes the server would lose commits.
const UNSAFE_SETTINGS: [(&str, &str); 3] = [
    ("fsync", "off"),
    ("full_page_writes", "off"),
    // Checkpoints write to disk what nobody will read; 1 h is longer than any test.
    ("checkpoint_timeout", "1h"),
];

/// How a private server is to be started. Defaults to a temporary server which is as safe as any
/// other: fsync is on.
///
/// ```
/// use postrider_embedded::ServerOptions;
///
/// let demo = ServerOptions::new().directory("data/postgres").setting("log_statement", "all");
/// let test = ServerOptions::fast_and_unsafe();
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct ServerOptions {
    pub(crate) directory: Option<PathBuf>,
    pub(crate) binaries: Option<Binaries>,
    pub(crate) port: Option<u16>,
    /// Sorted, so that the same options give the same command line.
    pub(crate) settings: BTreeMap<String, String>,
    pub(crate) start_timeout: Duration,
    pub(crate) durable: bool,
}

impl ServerOptions {
    /// A temporary server which keeps its data safe while it runs.
    pub fn new() -> Self {
        Self {
            directory: None,
            binaries: None,
            port: None,
            settings: owned(&SETTINGS).collect(),
            start_timeout: Duration::from_secs(30),
            durable: true,
        }
    }

    /// A temporary server for tests: commits do not wait for the disk. What was committed survives
    /// a crash of the server's processes, but not one of the machine.
    pub fn fast_and_unsafe() -> Self {
        let mut options = Self::new();
        options.settings.extend(owned(&UNSAFE_SETTINGS));
        options.durable = false;
        options
    }

    /// Keeps the server's data, password and log in `directory`, which is made if need be, and uses
    /// again what an earlier server left there. Defaults to a temporary directory which is removed
    /// when the server stops.
    pub fn directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory = Some(directory.into());
        self
    }

    /// The programs to run. Defaults to what [`crate::find_or_download`] finds.
    pub fn binaries(mut self, binaries: Binaries) -> Self {
        self.binaries = Some(binaries);
        self
    }

    /// The port to listen on at 127.0.0.1. Defaults to any free port between 20000 and 31999.
    pub fn port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    /// Sets a parameter of the server, as in `postgresql.conf`. The server refuses to start when it
    /// does not know the parameter. Defaults to 200 connections, 20 prepared transactions,
    /// `wal_level` logical, 128 MB of shared buffers and UTC.
    pub fn setting(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.insert(name.into(), value.into());
        self
    }

    /// How long to wait until the server answers. Defaults to 30 s; recovery after a crash of a big
    /// database may take longer.
    pub fn start_timeout(mut self, limit: Duration) -> Self {
        self.start_timeout = limit;
        self
    }
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self::new()
    }
}

fn owned(settings: &[(&str, &str)]) -> impl Iterator<Item = (String, String)> {
    settings.iter().map(|(name, value)| (name.to_string(), value.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn safety_is_the_default_and_speed_is_asked_for() {
        assert!(!ServerOptions::new().settings.contains_key("fsync"));
        assert_eq!(ServerOptions::fast_and_unsafe().settings["fsync"], "off");
    }

    #[test]
    fn even_the_fast_server_keeps_what_it_committed_when_its_process_crashes() {
        assert!(!ServerOptions::fast_and_unsafe().settings.contains_key("synchronous_commit"));
    }

    #[test]
    fn a_setting_overrides_the_default() {
        let options = ServerOptions::new().setting("max_connections", "7");
        assert_eq!(options.settings["max_connections"], "7");
    }
}
