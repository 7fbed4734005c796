//! The session of a process: its lease, renewed while the process lives.
//!
//! How it fails: a renewal that finds the session ended, or none that gets through for the length
//! of the lease, means that the session is lost: its handlers are stopped, their results refused,
//! and a new session is opened. Invariant: a lost session never renews again.

use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use uuid::Uuid;

use super::health::{Part, Vitals};
use crate::store::Store;

/// How long a session lives without being renewed. A killed process has its jobs elsewhere at most
/// this plus the rescue's period later.
pub(crate) const LEASE: Duration = Duration::from_secs(15);

/// How the keeper of a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    /// It was told to stop; the session is still good.
    Stopped,
    /// The session was lost.
    Lost,
}

/// Renews `session` until `stop` turns true or the session is lost; passes the ids of jobs that
/// were asked to stop on.
pub(crate) async fn keep(
    store: Store,
    session: Uuid,
    lease: Duration,
    vitals: Vitals,
    cancelled: mpsc::UnboundedSender<Vec<i64>>,
    mut stop: watch::Receiver<bool>,
) -> Kept {
    // Three chances within a lease, however long the database takes to answer each.
    let every = lease / 3;
    let mut renewed_at = Instant::now();
    let mut next = renewed_at + every;
    loop {
        tokio::select! {
            () = tokio::time::sleep_until(next) => {}
            _ = stop.wait_for(|stop| *stop) => return Kept::Stopped,
        }
        let asked_at = Instant::now();
        next = asked_at + every;
        let deadline = lease.saturating_sub(renewed_at.elapsed());
        match tokio::time::timeout(deadline, store.renew_session(session, lease)).await {
            Ok(Ok(Some(jobs))) => {
                renewed_at = asked_at;
                vitals.well(Part::Lease);
                if !jobs.is_empty() {
                    // The worker is gone only when the engine is stopping anyway.
                    let _ = cancelled.send(jobs);
                }
            }
            Ok(Ok(None)) => {
                tracing::warn!(%session, "this process was taken for dead; a new session starts");
                return Kept::Lost;
            }
            Ok(Err(error)) => {
                tracing::warn!(%error, "the session could not be renewed");
                vitals.ill(Part::Lease, super::chain(&error));
            }
            Err(_) => {
                tracing::warn!("renewing the session took too long");
                vitals.ill(Part::Lease, "the database does not answer".to_owned());
            }
        }
        if renewed_at.elapsed() >= lease {
            tracing::warn!(%session, "the lease ran out unrenewed; its handlers are stopped");
            return Kept::Lost;
        }
    }
}
