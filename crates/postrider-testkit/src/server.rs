//! The PostgreSQL server that tests use.
//!
//! Invariant: one process starts at most one server, which ends with the process. A static value is
//! never dropped, so it is the watchdog of `postrider-embedded` that sees to this.

use postrider_embedded::{PrivateServer, ServerOptions};
use tokio::sync::OnceCell;

/// Names a server that already runs. `cargo xtask test` sets it.
const URL_VARIABLE: &str = "POSTRIDER_TEST_DATABASE_URL";

static STARTED: OnceCell<PrivateServer> = OnceCell::const_new();

/// The PostgreSQL server that tests use.
#[derive(Debug)]
pub struct TestServer(());

impl TestServer {
    /// The URL of the database for maintenance on the server that all tests share.
    ///
    /// That is the server in `POSTRIDER_TEST_DATABASE_URL` if this is set; its user must be allowed
    /// to create databases. Otherwise the first call in a process starts a private one, which takes
    /// a second or two, is fast because it does not wait for the disk, and ends with the process. A
    /// runner which starts a process for every test would start a server for every test: give it a
    /// server through the variable.
    ///
    /// # Panics
    ///
    /// When the variable is unset and no server can be started. The message says why, and what to
    /// install if PostgreSQL is missing.
    pub async fn shared() -> String {
        match std::env::var(URL_VARIABLE) {
            Ok(url) if !url.is_empty() => url,
            _ => STARTED.get_or_init(start).await.url(),
        }
    }

    /// A server for one test alone, to be crashed and restarted at will.
    ///
    /// # Panics
    ///
    /// When it cannot be started; the message says why.
    pub async fn own() -> PrivateServer {
        start().await
    }
}

async fn start() -> PrivateServer {
    match PrivateServer::start(ServerOptions::fast_and_unsafe()).await {
        Ok(server) => server,
        Err(error) => panic!("tests need a PostgreSQL server: {}", chain(&error)),
    }
}

/// An error with all its causes, in one line as far as they are.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}
