//! Brings a private server up: on which port, after whom, and until it answers.

use super::{ASK_EVERY, PrivateServer, Running};
use crate::postmaster::{Postmaster, STOP_SOON};
use crate::{StartError, random};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

/// How long an earlier server in the same directory may take to go. If its owner was killed, its
/// watchdog is stopping it, which takes 20 s at the very most and much less as a rule.
const PREDECESSOR_LEAVES_WITHIN: Duration = Duration::from_secs(20);

/// How often to look whether it went.
const PREDECESSOR_PAUSE: Duration = Duration::from_millis(200);

/// How many ports to try when somebody takes the chosen one before the server does.
const PORT_TRIES: usize = 5;

impl PrivateServer {
    /// Launches on the given port, or on any free one.
    pub(super) async fn launch_on(&mut self, port: Option<u16>) -> Result<(), StartError> {
        let tries = if port.is_some() { 1 } else { PORT_TRIES };
        for _ in 0..tries {
            let free = || random::free_port().ok_or(StartError::NoPort { detail: String::new() });
            self.port = port.map_or_else(free, Ok)?;
            match self.launch_after_predecessor().await {
                Err(StartError::NoPort { .. }) => {}
                other => return other,
            }
        }
        Err(StartError::NoPort { detail: format!("port {} is taken", self.port) })
    }

    /// Launches, waiting for an earlier server in the same directory to go. We hold the lock of the
    /// directory, so the owner of that server is dead, and its watchdog is stopping it.
    async fn launch_after_predecessor(&mut self) -> Result<(), StartError> {
        let deadline = Instant::now() + PREDECESSOR_LEAVES_WITHIN;
        loop {
            match self.launch().await {
                Err(StartError::AlreadyRunning { .. }) if Instant::now() < deadline => {
                    sleep(PREDECESSOR_PAUSE).await;
                }
                other => return other,
            }
        }
    }

    /// Launches once and waits until the server answers.
    async fn launch(&mut self) -> Result<(), StartError> {
        self.directory.rotate_log()?;
        // It forks and reads one line from the child, which takes a millisecond.
        let postmaster =
            Postmaster::spawn(&self.directory, &self.binaries, self.port, &self.settings)?;
        // From here on, dropping the future stops the server.
        self.running = Running(Some(postmaster));
        let answer = self.wait_until_ready().await;
        if answer.is_err() {
            let mut failed = Running(self.running.0.take());
            let stop = tokio::task::spawn_blocking(move || failed.stop(&STOP_SOON));
            // That it cannot be stopped is a lesser problem than the one we are about to tell.
            let _ = stop.await;
        }
        answer
    }

    async fn wait_until_ready(&mut self) -> Result<(), StartError> {
        let deadline = Instant::now() + self.start_timeout;
        let url = self.url();
        loop {
            let status = self.running.0.as_mut().and_then(Postmaster::ended);
            if let Some(status) = status {
                return Err(self.why_ended(&status.to_string()));
            }
            let attempt = tokio_postgres::connect(&url, tokio_postgres::NoTls);
            let last = match timeout(Duration::from_secs(2), attempt).await {
                Ok(Ok(_)) => return Ok(()),
                Ok(Err(error)) => error.to_string(),
                Err(_) => "it accepted a connection and said nothing".to_owned(),
            };
            if Instant::now() >= deadline {
                let log = self.directory.last_words();
                return Err(StartError::NotReady { limit: self.start_timeout, last, log });
            }
            sleep(ASK_EVERY).await;
        }
    }

    /// Reads from the log why the server ended, as far as we can do something about it.
    fn why_ended(&self, status: &str) -> StartError {
        let log = self.directory.last_words();
        // The former while the earlier server runs, the latter while processes of it linger.
        let in_use = ["lock file \"postmaster.pid\" already exists", "is still in use"];
        if in_use.iter().any(|words| log.contains(words)) {
            let hint = log.lines().find_map(|line| line.split_once("HINT:  "));
            let owner = hint.map(|(_, text)| text.to_owned()).unwrap_or_default();
            let directory = self.directory.path().to_path_buf();
            return StartError::AlreadyRunning { directory, owner };
        }
        if log.contains("Address already in use") {
            return StartError::NoPort { detail: format!("port {} is taken", self.port) };
        }
        StartError::Ended { status: status.to_owned(), log }
    }
}
