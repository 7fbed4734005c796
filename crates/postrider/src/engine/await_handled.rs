//! Waiting for what becomes of an event: read your own write.
//!
//! How it fails: [`Awaited::TimedOut`] is a value, not an error; more waiters than permitted are
//! told so at once with [`ErrorKind::Busy`]. Invariants: all waiters of a process share its one
//! listening connection; a waiter looks first and then waits, so that nothing is missed.

use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_postgres::types::Json;
use uuid::Uuid;

use super::Handle;
use crate::{Error, ErrorKind, JobState};

/// How often a waiter looks without being told: other processes settle without a word.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How waiting ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Awaited<T> {
    /// It happened.
    Done(T),
    /// It did not happen in time; it may still.
    TimedOut,
}

/// How a job ended.
#[derive(Debug, Clone)]
pub struct JobEnd {
    /// The final state.
    pub state: JobState,
    /// What its handler left, where it completed and left something.
    pub output: Option<Box<RawValue>>,
    /// Why its last failed attempt failed.
    pub last_error: Option<String>,
}

impl JobEnd {
    /// The output as a type of yours.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] when there is none; [`ErrorKind::Invalid`] when it is of another
    /// form.
    pub fn output<T: DeserializeOwned>(&self) -> Result<T, Error> {
        let missing = || Error::new(ErrorKind::NotFound, "the job left no output");
        let output = self.output.as_deref().ok_or_else(missing)?;
        serde_json::from_str(output.get()).map_err(|error| {
            Error::new(ErrorKind::Invalid, "the output is of another form").with_source(error)
        })
    }
}

impl Handle {
    /// Waits until a job has ended, `timeout` at most. A job that a person brings back afterwards
    /// has not ended any more.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] when as many callers wait already as may; [`ErrorKind::NotFound`] when
    /// the job is not there: its transaction was not committed, or it is over its retention.
    pub async fn await_job(&self, id: i64, timeout: Duration) -> Result<Awaited<JobEnd>, Error> {
        let _place = self.place()?;
        let told = self.wakes.on_settled();
        self.wait(told, timeout, || async move {
            let rows = self.store.query(&self.store.statements.job_end, &[&id]).await?;
            let row = rows.first().ok_or_else(|| {
                Error::new(ErrorKind::NotFound, format!("there is no job {id}"))
                    .with_hint("commit the transaction that enqueued it before you wait")
            })?;
            let word: &str = row.try_get("state")?;
            let state = JobState::ALL.into_iter().find(|known| known.as_str() == word);
            let Some(state) = state.filter(|state| state.is_final()) else { return Ok(None) };
            let output: Option<Json<Box<RawValue>>> = row.try_get("output")?;
            let output = output.map(|Json(output)| output);
            Ok(Some(JobEnd { state, output, last_error: row.try_get("last_error")? }))
        })
        .await
    }

    /// Waits until all of the events are fanned out, `timeout` at most.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] when as many callers wait already as may; [`ErrorKind::NotFound`] when
    /// an event is not there: its transaction was not committed, or it is over its retention.
    pub async fn await_fanout(
        &self,
        ids: &[Uuid],
        timeout: Duration,
    ) -> Result<Awaited<()>, Error> {
        let _place = self.place()?;
        let told = self.wakes.on_fanned();
        self.wait(told, timeout, || async move {
            let rows = self.store.query(&self.store.statements.fanned_out, &[&ids]).await?;
            let known: i64 = rows.first().map_or(Ok(0), |row| row.try_get("known"))?;
            let fanned: i64 = rows.first().map_or(Ok(0), |row| row.try_get("fanned"))?;
            let distinct = ids.iter().collect::<std::collections::HashSet<_>>().len();
            let asked = i64::try_from(distinct).unwrap_or(i64::MAX);
            if known < asked {
                let message = format!("{} of {asked} events are not there", asked - known);
                return Err(Error::new(ErrorKind::NotFound, message)
                    .with_hint("commit the transaction that recorded them before you wait"));
            }
            Ok((fanned == asked).then_some(()))
        })
        .await
    }

    /// Waits until `subscription` has handled the event, `timeout` at most. Returns the final state
    /// of its job, or `None` inside `Done` when the event was fanned out and did not go to it.
    ///
    /// # Errors
    /// As [`Handle::await_fanout`]; [`ErrorKind::NotFound`] when there is no such subscription.
    pub async fn await_handled(
        &self,
        id: Uuid,
        subscription: &str,
        timeout: Duration,
    ) -> Result<Awaited<Option<JobState>>, Error> {
        let _place = self.place()?;
        let told = self.wakes.on_settled();
        self.wait(told, timeout, || async move {
            let statement = &self.store.statements.handled;
            let rows = self.store.query(statement, &[&id, &subscription]).await?;
            let missing = |what: &str| Error::new(ErrorKind::NotFound, what.to_owned());
            let row = rows.first().ok_or_else(|| missing("the event is not there"))?;
            if !row.try_get::<_, bool>("subscription_known")? {
                return Err(missing(&format!("there is no subscription `{subscription}`")));
            }
            if !row.try_get::<_, bool>("fanned")? {
                return Ok(None);
            }
            if row.try_get::<_, Option<i64>>("job_id")?.is_none() {
                return Ok(Some(None));
            }
            let state: Option<&str> = row.try_get("state")?;
            let found = JobState::ALL.into_iter().find(|known| Some(known.as_str()) == state);
            Ok(found.filter(|state| state.is_final()).map(Some))
        })
        .await
    }

    fn place(&self) -> Result<tokio::sync::SemaphorePermit<'_>, Error> {
        self.waiters.try_acquire().map_err(|_| {
            Error::new(ErrorKind::Busy, "as many callers wait already as may")
                .with_hint("do not wait, or raise waiters_max")
        })
    }

    /// Looks, and looks again whenever told, until `look` finds something or time is up.
    async fn wait<T, Look: Future<Output = Result<Option<T>, Error>>>(
        &self,
        mut told: watch::Receiver<u64>,
        timeout: Duration,
        look: impl Fn() -> Look,
    ) -> Result<Awaited<T>, Error> {
        let deadline = Instant::now() + timeout;
        loop {
            told.mark_unchanged();
            if let Some(found) = look().await? {
                return Ok(Awaited::Done(found));
            }
            let next = (Instant::now() + LOOK_EVERY).min(deadline);
            let _ = tokio::time::timeout_at(next, told.changed()).await;
            if Instant::now() >= deadline {
                return Ok(look().await?.map_or(Awaited::TimedOut, Awaited::Done));
            }
        }
    }
}
