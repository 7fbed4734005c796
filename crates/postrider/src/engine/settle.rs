//! The settler: writes the outcomes of attempts down, many at a time.
//!
//! How it fails: a settle that fails is tried again until it goes through or the lease is lost;
//! meanwhile the session is renewed, so nobody else runs the jobs. Invariants: an outcome is
//! written only under the token of its claim; a stale one is dropped with a word in the log.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use postrider_core::Outcome;
use postrider_core::text::storable;
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use uuid::Uuid;

use super::attempt::{End, Finished};
use super::health::Part;
use super::wake::Wakes;
use crate::store::{Ended, PendingAgain, Store, micros};
use crate::{Error, ErrorKind, JobLease};

/// Most outcomes of one statement.
const SETTLE_MAX: usize = 500;
/// The waits between attempts to settle.
const AGAIN_MIN: Duration = Duration::from_millis(100);
const AGAIN_MAX: Duration = Duration::from_secs(5);
/// The longest snooze: a year, so that no time overflows.
const SNOOZE_MAX: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Settles the attempts of one session.
pub(crate) struct Settler {
    store: Store,
    session: Uuid,
    wakes: Arc<Wakes>,
}

/// Outcomes sorted by what is done with them.
#[derive(Default)]
struct Sorted {
    completed: Vec<(JobLease, Option<Box<RawValue>>)>,
    pending: Vec<PendingAgain>,
    ended: Vec<Ended>,
}

impl Settler {
    pub(crate) fn new(store: Store, session: Uuid, wakes: Arc<Wakes>) -> Self {
        Self { store, session, wakes }
    }

    /// Settles until the last sender is gone.
    pub(crate) async fn run(mut self, mut finished: mpsc::UnboundedReceiver<Finished>) {
        let mut batch = Vec::with_capacity(SETTLE_MAX);
        while finished.recv_many(&mut batch, SETTLE_MAX).await > 0 {
            self.settle(&batch).await;
            for attempt in batch.drain(..) {
                attempt.free_room();
            }
            self.wakes.settled();
            self.wakes.work.notify_one();
        }
    }

    /// Settles a batch, again and again until it is done or the session is over.
    async fn settle(&mut self, batch: &[Finished]) {
        let mut sorted = sort(batch);
        let mut wait = AGAIN_MIN;
        while let Err(error) = self.write(&mut sorted).await {
            if self.session_is_over().await {
                tracing::warn!(
                    jobs = batch.len(),
                    "the lease was lost before the outcomes were written"
                );
                self.wakes.vitals.well(Part::Settles);
                return;
            }
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "outcomes could not be written yet"
            );
            self.wakes.vitals.ill(Part::Settles, super::chain(&error));
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(AGAIN_MAX);
        }
        self.wakes.vitals.well(Part::Settles);
        if let Err(error) = self.release(batch).await {
            // The lease rows stay until the session ends; the rescue removes them then.
            tracing::debug!(%error, "leases could not be released");
        }
    }

    /// Writes what is not written yet.
    async fn write(&self, sorted: &mut Sorted) -> Result<(), Error> {
        if !sorted.completed.is_empty() {
            match self.store.settle_completed(self.session, &sorted.completed).await {
                Ok(settled) => {
                    warn_stale(&settled, sorted.completed.iter().map(|(lease, _)| lease));
                    sorted.completed.clear();
                }
                Err(error) if error.kind() == ErrorKind::Invalid => {
                    self.complete_one_by_one(&mut sorted.completed).await?;
                }
                Err(error) => return Err(error),
            }
        }
        if !sorted.pending.is_empty() {
            let settled = self.store.settle_pending(self.session, &sorted.pending).await?;
            let expected = sorted.pending.iter().filter(|job| !job.may_be_settled);
            warn_stale(&settled, expected.map(|job| &job.lease));
            sorted.pending.clear();
        }
        if !sorted.ended.is_empty() {
            let settled = self.store.settle_ended(self.session, &sorted.ended).await?;
            let expected = sorted.ended.iter().filter(|job| !job.may_be_settled);
            warn_stale(&settled, expected.map(|job| &job.lease));
            sorted.ended.clear();
        }
        Ok(())
    }

    /// An output that PostgreSQL cannot hold (NUL in a text, a number out of range) must neither
    /// undo the work nor hold up other jobs: a note that says so takes its place.
    async fn complete_one_by_one(
        &self,
        completed: &mut Vec<(JobLease, Option<Box<RawValue>>)>,
    ) -> Result<(), Error> {
        while let Some(one) = completed.last() {
            let (lease, result) =
                (one.0, self.store.settle_completed(self.session, std::slice::from_ref(one)).await);
            let settled = match result {
                Err(error) if error.kind() == ErrorKind::Invalid => {
                    tracing::warn!(job = lease.job_id, %error, "an output cannot be stored");
                    let note = serde_json::json!({ "output_not_stored": error.to_string() });
                    let note = serde_json::value::to_raw_value(&note).ok();
                    self.store.settle_completed(self.session, &[(lease, note)]).await?
                }
                other => other?,
            };
            warn_stale(&settled, std::iter::once(&lease));
            completed.pop();
        }
        Ok(())
    }

    /// Whether there is no session to settle under any more.
    async fn session_is_over(&self) -> bool {
        matches!(self.store.session_is_live(self.session).await, Ok(false))
    }

    /// Deletes the leases of which these attempts were the last.
    async fn release(&self, batch: &[Finished]) -> Result<(), Error> {
        let empty = |attempt: &&Finished| attempt.lease_jobs.fetch_sub(1, Ordering::AcqRel) == 1;
        let tokens: Vec<i64> =
            batch.iter().filter(empty).map(|attempt| attempt.lease.token).collect();
        if tokens.is_empty() {
            return Ok(());
        }
        self.store.release_leases(&tokens).await
    }
}

/// Says which outcomes came too late.
fn warn_stale<'a>(settled: &HashSet<i64>, asked: impl Iterator<Item = &'a JobLease>) {
    for lease in asked.filter(|lease| !settled.contains(&lease.job_id)) {
        tracing::warn!(
            job = lease.job_id,
            token = lease.token,
            "an outcome came after its lease was lost; it was not taken"
        );
    }
}

/// Decides for each attempt what becomes of its job.
fn sort(batch: &[Finished]) -> Sorted {
    let mut sorted = Sorted::default();
    for attempt in batch {
        let lease = attempt.lease;
        match &attempt.end {
            End::Outcome(Outcome::Done(output)) => sorted.completed.push((lease, output.clone())),
            End::Outcome(Outcome::Retry(error)) => sort_retry(attempt, error, &mut sorted),
            End::Outcome(Outcome::Discard(error)) => {
                let error = Some(storable(error));
                sorted.ended.push(Ended {
                    lease,
                    state: "discarded",
                    error,
                    may_be_settled: attempt.may_be_settled,
                });
            }
            End::Outcome(Outcome::Snooze(wait)) => {
                let delay_us = micros((*wait).min(SNOOZE_MAX));
                sorted.pending.push(again(attempt, delay_us, "snoozed", None));
            }
            End::Stopped => sorted.pending.push(again(attempt, 0, "released", None)),
        }
    }
    sorted
}

/// A failed attempt: again later, or discarded when it was the last.
fn sort_retry(attempt: &Finished, error: &str, sorted: &mut Sorted) {
    let (lease, error) = (attempt.lease, Some(storable(error)));
    if attempt.attempts_left <= 0 {
        let may_be_settled = attempt.may_be_settled;
        sorted.ended.push(Ended { lease, state: "discarded", error, may_be_settled });
        return;
    }
    let delay = attempt.terms.backoff.delay(attempt.attempt, super::chance());
    sorted.pending.push(again(attempt, micros(delay), "retry", error));
}

fn again(
    attempt: &Finished,
    delay_us: i64,
    outcome: &'static str,
    error: Option<String>,
) -> PendingAgain {
    let (lease, may_be_settled) = (attempt.lease, attempt.may_be_settled);
    PendingAgain { lease, delay_us, outcome, error, may_be_settled }
}
