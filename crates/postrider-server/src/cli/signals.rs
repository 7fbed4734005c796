//! Signals: the first asks to stop in order, the second stops at once.
//!
//! How it fails: a handler that cannot be installed leaves the default, which ends the process.
//! Invariant: after the first signal nothing but the second can cut an orderly stop short.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The exit code after a second signal: 128 + SIGINT, as shells have it.
const AT_ONCE: i32 = 130;

/// The signals that ask to stop. Made early, so that no signal is missed.
pub(super) struct Signals(Option<(Signal, Signal)>);

impl Signals {
    pub(super) fn new() -> Self {
        let both = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()));
        match both {
            (Ok(terminate), Ok(interrupt)) => Self(Some((terminate, interrupt))),
            _ => Self(None),
        }
    }

    /// Waits for the first signal; from then on a second one ends the process at once.
    pub(super) async fn first(mut self) {
        self.next().await;
        eprintln!("stopping; once more stops at once");
        tokio::spawn(async move {
            self.next().await;
            std::process::exit(AT_ONCE);
        });
    }

    async fn next(&mut self) {
        match &mut self.0 {
            Some((terminate, interrupt)) => tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            },
            None => std::future::pending().await,
        }
    }
}
