//! Acting on many jobs: retry, cancel, move to another time, purge.
//!
//! How it fails: [`ErrorKind::Invalid`] for a state that the action cannot have; an outage in the
//! middle leaves the batches before it done, and the action may be repeated. Invariants: each batch
//! of 1,000 is a transaction of its own; jobs that are made after the start are not meant.

use serde::Serialize;
use time::OffsetDateTime;

use super::{Admin, JobView};
use crate::store::Jobs;
use crate::{Error, ErrorKind};

/// What to do with many jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BulkAction {
    /// Those that wait for a later time run now; discarded and cancelled ones come back with at
    /// least one attempt left, where their event and subscription are still there.
    Retry,
    /// Those that wait are called off, those that run are asked to stop.
    Cancel,
    /// Those that wait get another due time.
    Move {
        /// The new time.
        run_at: OffsetDateTime,
    },
    /// Finished ones are forgotten before their retention is over.
    Purge,
}

impl BulkAction {
    /// The states in which a job can be meant.
    #[must_use]
    pub fn states(self) -> &'static [JobView] {
        use JobView::{Cancelled, Completed, Discarded, Pending, Retryable, Running, Scheduled};
        match self {
            Self::Retry => &[Scheduled, Retryable, Discarded, Cancelled],
            Self::Cancel => &[Pending, Scheduled, Retryable, Running],
            Self::Move { .. } => &[Pending, Scheduled, Retryable],
            Self::Purge => &[Completed, Discarded, Cancelled],
        }
    }
}

/// Which jobs are meant. Everything that is `None` or empty is not asked for.
#[derive(Debug, Clone, Default)]
pub struct JobSelection {
    /// The name of their kind or subscription, deleted ones of that name included.
    pub subscription: Option<String>,
    /// Where they stand; empty for every state that the action can have.
    pub states: Vec<JobView>,
    /// Their owner.
    pub tenant: Option<String>,
    /// A part of their last error, in any case.
    pub error: Option<String>,
    /// Only those that were made before.
    pub created_before: Option<OffsetDateTime>,
}

/// How far an action has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct BulkProgress {
    /// How many jobs were changed so far, or would be.
    pub jobs: i64,
    /// The ids up to this one were looked at.
    pub looked_up_to: i64,
    /// The last id that is looked at.
    pub last_id: i64,
}

impl Admin {
    /// Counts the jobs that an action would change, in batches, and tells the progress.
    ///
    /// # Errors
    /// As [`Admin::act_on_jobs`].
    pub async fn preview_jobs(
        &self,
        action: BulkAction,
        selection: &JobSelection,
        progress: impl FnMut(BulkProgress),
    ) -> Result<i64, Error> {
        self.in_batches(action, true, selection, progress).await
    }

    /// Acts on the selected jobs, in batches, each with its commit; tells the progress after each
    /// and returns how many jobs were changed.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a state that the action cannot have; [`ErrorKind::Database`] or
    /// [`ErrorKind::Unreachable`] in the middle: the batches before stay done.
    pub async fn act_on_jobs(
        &self,
        action: BulkAction,
        selection: &JobSelection,
        progress: impl FnMut(BulkProgress),
    ) -> Result<i64, Error> {
        let jobs = self.in_batches(action, false, selection, progress).await?;
        if jobs > 0 && matches!(action, BulkAction::Retry | BulkAction::Move { .. }) {
            self.store.ring("due").await?;
        }
        Ok(jobs)
    }

    async fn in_batches(
        &self,
        action: BulkAction,
        only_counts: bool,
        selection: &JobSelection,
        mut progress: impl FnMut(BulkProgress),
    ) -> Result<i64, Error> {
        let states = states(action, selection)?;
        let last_id = self.store.last_job_id().await?;
        let mut jobs = 0;
        for table in [Jobs::Unfinished, Jobs::Finished] {
            let of_table = |view: &JobView| view.stored().is_final() == (table == Jobs::Finished);
            let words: Vec<&str> =
                states.iter().filter(|view| of_table(view)).map(|view| view.as_str()).collect();
            if words.is_empty() {
                continue;
            }
            let mut after = 0;
            loop {
                let meant = (!only_counts).then_some(action);
                let range = (after, last_id);
                let batch = self.store.bulk(table, meant, selection, &words, range).await?;
                jobs += batch.changed;
                after = batch.last_id.unwrap_or(last_id);
                progress(BulkProgress { jobs, looked_up_to: after, last_id });
                if batch.is_last {
                    break;
                }
            }
        }
        Ok(jobs)
    }
}

/// The states that are asked for and possible.
fn states(action: BulkAction, selection: &JobSelection) -> Result<Vec<JobView>, Error> {
    let possible = action.states();
    if selection.states.is_empty() {
        return Ok(possible.to_vec());
    }
    match selection.states.iter().find(|view| !possible.contains(view)) {
        None => Ok(selection.states.clone()),
        Some(odd) => {
            let words: Vec<&str> = possible.iter().map(|view| view.as_str()).collect();
            let message = format!("state: this cannot be done to a job that is {odd}");
            Err(Error::new(ErrorKind::Invalid, message)
                .with_field("state")
                .with_hint(format!("it can be done to: {}", words.join(", "))))
        }
    }
}
