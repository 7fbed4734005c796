//! What must be done now and then: rescue, partitions, retention, deleted subscriptions.
//!
//! How it fails: a step that fails is logged and tried again at its next turn; no step depends on
//! another. Invariants: every step is safe to run in several processes at once and does a bounded
//! amount of work; nothing here waits for a lock of a writer longer than 50 ms.

use std::time::Duration;

use tokio::sync::watch;

use super::health::{Part, Vitals};
use super::relay::jittered;
use crate::Error;
use crate::store::Store;

/// How often jobs of dead processes are looked for.
const RESCUE_EVERY: Duration = Duration::from_secs(2);
/// How often partitions and retention are looked after.
const HOUSEKEEPING_EVERY: Duration = Duration::from_secs(300);
/// How soon after a failure.
const HOUSEKEEPING_AGAIN: Duration = Duration::from_secs(10);
/// Most leases that one rescue statement looks at.
const RESCUE_LEASES_MAX: i32 = 50;

/// Rescues until `stop` turns true. Apart from housekeeping, which may take its time.
pub(crate) async fn run_rescue(store: Store, vitals: Vitals, mut stop: watch::Receiver<bool>) {
    while !*stop.borrow() {
        let rescued = rescue(&store).await;
        vitals.note(Part::Rescue, &rescued);
        if let Err(error) = rescued {
            tracing::warn!(%error, "jobs of dead processes could not be looked for");
        }
        tokio::select! {
            () = tokio::time::sleep(jittered(RESCUE_EVERY)) => {}
            _ = stop.wait_for(|stop| *stop) => {}
        }
    }
}

/// Keeps house until `stop` turns true; a step under way is dropped then, and its transaction with
/// it.
pub(crate) async fn run_housekeeping(
    store: Store,
    vitals: Vitals,
    mut stop: watch::Receiver<bool>,
) {
    while !*stop.borrow() {
        let turn = async {
            let kept = store.housekeeping().await;
            vitals.note(Part::Housekeeping, &kept);
            let wait = if kept.is_ok() { HOUSEKEEPING_EVERY } else { HOUSEKEEPING_AGAIN };
            if let Err(error) = kept {
                tracing::debug!(%error, "housekeeping did not finish; it is tried again");
            }
            tokio::time::sleep(jittered(wait)).await;
        };
        tokio::select! {
            () = turn => {}
            _ = stop.wait_for(|stop| *stop) => {}
        }
    }
}

/// Ends sessions whose lease ran out and takes their jobs back. Returns how many jobs were freed.
pub(crate) async fn rescue(store: &Store) -> Result<i64, Error> {
    let buried = store.bury_sessions().await?;
    for name in &buried {
        tracing::warn!(name, "a process died or hangs; its jobs are taken back");
    }
    let mut rescued = 0;
    loop {
        let (leases, jobs) = store.rescue_jobs(RESCUE_LEASES_MAX).await?;
        rescued += jobs;
        if jobs == 0 || leases < usize::try_from(RESCUE_LEASES_MAX).unwrap_or(0) {
            break;
        }
    }
    if !buried.is_empty() {
        store.narrow_globs().await?;
    }
    if rescued > 0 {
        tracing::warn!(jobs = rescued, "jobs of dead processes are pending again");
    }
    Ok(rescued)
}
