//! The signals by which a person or a supervisor ends the demo.
//!
//! How it fails: [`Failure`] when they cannot be listened to. Invariant: none is missed between two
//! waits.

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::failure::Failure;

/// The signals that ask a program to end.
pub(super) struct Signals([Signal; 3]);

impl Signals {
    /// Takes these signals over from now on: they end the process no more.
    pub(super) fn new() -> Result<Self, Failure> {
        let [a, b, c] = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
        Ok(Self([signal(a)?, signal(b)?, signal(c)?]))
    }

    /// Waits for any of them.
    pub(super) async fn any(&mut self) {
        let [a, b, c] = &mut self.0;
        tokio::select! {
            _ = a.recv() => {}
            _ = b.recv() => {}
            _ = c.recv() => {}
        }
    }
}
