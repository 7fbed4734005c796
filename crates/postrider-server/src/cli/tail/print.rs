//! Prints events as NDJSON, each line flushed before its event counts as handled.
//!
//! How it fails: when standard output is closed or full, the first error is kept, the event goes back
//! without an attempt used, and whoever waits in [`Printer::failed`] is told. Invariant: lines never
//! mix.

use std::io;
use std::sync::Mutex;
use std::time::Duration;

use postrider::{Event, Outcome};
use tokio::io::{AsyncWriteExt as _, Stdout};
use tokio::sync::Notify;

/// When an event that could not be printed is due again: this process is on its way out by then.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Standard output and its first error.
#[derive(Debug)]
pub(super) struct Printer {
    out: tokio::sync::Mutex<Stdout>,
    error: Mutex<Option<io::Error>>,
    failed: Notify,
}

impl Printer {
    pub(super) fn new() -> Self {
        Self {
            out: tokio::sync::Mutex::new(tokio::io::stdout()),
            error: Mutex::new(None),
            failed: Notify::new(),
        }
    }

    /// Prints one event.
    pub(super) async fn print(&self, event: &Event) -> Outcome {
        let mut line = match serde_json::to_vec(event) {
            Ok(line) => line,
            Err(error) => return Outcome::Discard(format!("cannot be written as JSON: {error}")),
        };
        line.push(b'\n');
        let mut out = self.out.lock().await;
        let written = async {
            out.write_all(&line).await?;
            out.flush().await
        };
        match written.await {
            Ok(()) => Outcome::Done(None),
            Err(error) => {
                self.kept().get_or_insert(error);
                self.failed.notify_one();
                Outcome::Snooze(AGAIN_AFTER)
            }
        }
    }

    /// Waits until printing has failed.
    pub(super) async fn failed(&self) {
        self.failed.notified().await;
    }

    /// Why printing failed, if it did.
    pub(super) fn failure(&self) -> Option<io::Error> {
        self.kept().take()
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Option<io::Error>> {
        self.error.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
