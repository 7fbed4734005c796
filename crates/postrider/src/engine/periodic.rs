//! The loop that enqueues the jobs of periodic jobs. It runs beside each relay.
//!
//! How it fails: a look that fails is taken again a second later; a schedule that cannot be read
//! keeps no other from its turn. Invariants: due times are judged by the database's clock; a tick
//! gets one job across all processes, because the database refuses the second.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::relay::jittered;
use super::wake::Wakes;
use crate::Error;
use crate::periodic::schedule::Schedule;
use crate::store::{DuePeriodic, Fired, Store};

/// How often due schedules are looked for: how late a tick may get its job.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Looks until `stop` turns true.
pub(crate) async fn run(store: Store, wakes: Arc<Wakes>, mut stop: watch::Receiver<bool>) {
    while !*stop.borrow() {
        if let Err(error) = look(&store, &wakes).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "a look for ticks failed");
        }
        tokio::select! {
            () = tokio::time::sleep(jittered(LOOK_EVERY)) => {}
            _ = stop.wait_for(|stop| *stop) => {}
        }
    }
}

/// Fires every schedule that is due, and keeps the results of earlier jobs.
pub(crate) async fn look(store: &Store, wakes: &Wakes) -> Result<(), Error> {
    store.note_periodic().await?;
    let mut fired = false;
    for due in store.due_periodic().await? {
        fired |= fire(store, &due).await? == Fired::Enqueued;
    }
    if fired {
        wakes.work.notify_one();
        store.ring("due").await?;
    }
    Ok(())
}

async fn fire(store: &Store, due: &DuePeriodic) -> Result<Fired, Error> {
    let read = Schedule::parse(&due.cron, &due.time_zone).and_then(|schedule| {
        let most = usize::try_from(due.catch_up_max).unwrap_or(1);
        Ok(schedule.plan(due.next_due_at, due.now, due.catch_up.parse()?, most))
    });
    let plan = match read {
        Ok(plan) => plan,
        Err(error) => {
            // Another version of the program, which could read it, may serve it.
            tracing::warn!(name = due.name, %error, "the schedule cannot be read");
            return Ok(Fired::Taken);
        }
    };
    let fired = store.fire_periodic(due, &plan).await?;
    if fired == Fired::NoKind {
        tracing::warn!(name = due.name, "the kind of a periodic job is deleted; its ticks pass");
    }
    Ok(fired)
}
