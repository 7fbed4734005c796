//! What workers ask of the database.
//!
//! How it fails: the database's error; a failed settle has changed nothing and may be repeated.
//! Invariant: a settle changes a job only while it is held under the token that is given.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use postrider_core::{Backoff, Event, Payload};
use serde_json::value::RawValue;
use time::OffsetDateTime;
use tokio_postgres::Row;
use tokio_postgres::types::Json;
use uuid::Uuid;

use super::{Param, Store};
use crate::{Error, ErrorKind, JobLease};

/// A job that this session just claimed.
#[derive(Debug)]
pub(crate) struct Claimed {
    pub(crate) lease: JobLease,
    pub(crate) subscription_id: i32,
    /// The number of this attempt, 1 for the first.
    pub(crate) attempt: i32,
    /// Attempts that a person added by retrying it.
    pub(crate) extra_attempts: i32,
    pub(crate) origin: String,
    pub(crate) priority: i16,
    /// When the job was due that this claim found first.
    pub(crate) head_due_at: OffsetDateTime,
    pub(crate) terms: Arc<Terms>,
    /// What it is about, or why that cannot be read: that is this job's alone.
    pub(crate) found: Result<Found, Error>,
}

/// What a claimed job is about.
#[derive(Debug)]
pub(crate) enum Found {
    /// A delivery has an event.
    Event(Event),
    /// An enqueued job has arguments.
    Enqueued(EnqueuedJob),
}

/// What an enqueued job has and a delivery has not.
#[derive(Debug)]
pub(crate) struct EnqueuedJob {
    pub(crate) arguments: Box<RawValue>,
    pub(crate) tenant: String,
    pub(crate) key: Option<String>,
    pub(crate) tick_at: Option<OffsetDateTime>,
}

/// The policy in force when a job was claimed.
#[derive(Debug, Clone)]
pub(crate) struct Terms {
    pub(crate) max_attempts: i32,
    pub(crate) backoff: Backoff,
    pub(crate) timeout: Duration,
}

/// A running job that goes back to pending.
#[derive(Debug)]
pub(crate) struct PendingAgain {
    pub(crate) lease: JobLease,
    pub(crate) delay_us: i64,
    /// `retry`, `snoozed` or `released`.
    pub(crate) outcome: &'static str,
    pub(crate) error: Option<String>,
    /// Whether the handler may have settled the job itself, so that finding nothing is no surprise.
    pub(crate) may_be_settled: bool,
}

/// A running job that ends without success.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) lease: JobLease,
    /// `discarded` or `cancelled`.
    pub(crate) state: &'static str,
    pub(crate) error: Option<String>,
    /// As [`PendingAgain::may_be_settled`].
    pub(crate) may_be_settled: bool,
}

impl Store {
    /// Claims up to `most` due jobs of one of `subscriptions`, looking at those due since `from`,
    /// which has a time for each priority.
    pub(crate) async fn claim_jobs(
        &self,
        session: Uuid,
        subscriptions: &[i32],
        most: i64,
        from: &[OffsetDateTime],
    ) -> Result<Vec<Claimed>, Error> {
        let shift = self.clock.shift();
        let params: &[Param<'_>] = &[&session, &subscriptions, &most, &shift, &from];
        let rows = self.query(&self.statements.claim_jobs, params).await?;
        let Some(first) = rows.first() else { return Ok(Vec::new()) };
        // One claim is for one subscription, so one reading of its policy serves all rows.
        let terms = Arc::new(terms(first)?);
        rows.iter().map(|row| claimed(row, &terms)).collect()
    }

    /// Puts back what claims of this session took without an answer; `known` are the tokens of the
    /// claims that were answered. Returns how many jobs went back.
    pub(crate) async fn return_claims(&self, session: Uuid, known: &[i64]) -> Result<i64, Error> {
        let params: &[Param<'_>] = &[&session, &known, &self.clock.shift()];
        let rows = self.query(&self.statements.claims_return, params).await?;
        let Some(row) = rows.first() else { return Ok(0) };
        let tokens: Vec<i64> = row.try_get("tokens")?;
        if !tokens.is_empty() {
            self.release_leases(&tokens).await?;
        }
        Ok(row.try_get("jobs")?)
    }

    /// Settles jobs as completed; returns the ids that were.
    pub(crate) async fn settle_completed(
        &self,
        session: Uuid,
        done: &[(JobLease, Option<Box<RawValue>>)],
    ) -> Result<HashSet<i64>, Error> {
        let ids: Vec<i64> = done.iter().map(|(lease, _)| lease.job_id).collect();
        let tokens: Vec<i64> = done.iter().map(|(lease, _)| lease.token).collect();
        let outputs: Vec<Option<Json<&RawValue>>> =
            done.iter().map(|(_, output)| output.as_deref().map(Json)).collect();
        let params: &[Param<'_>] = &[&ids, &tokens, &outputs, &session, &self.clock.shift()];
        settled(self.query(&self.statements.settle_completed, params).await?)
    }

    /// Puts running jobs back; returns the ids that were.
    pub(crate) async fn settle_pending(
        &self,
        session: Uuid,
        back: &[PendingAgain],
    ) -> Result<HashSet<i64>, Error> {
        let ids: Vec<i64> = back.iter().map(|job| job.lease.job_id).collect();
        let tokens: Vec<i64> = back.iter().map(|job| job.lease.token).collect();
        let delays: Vec<i64> = back.iter().map(|job| job.delay_us).collect();
        let outcomes: Vec<&str> = back.iter().map(|job| job.outcome).collect();
        let errors: Vec<Option<&str>> = back.iter().map(|job| job.error.as_deref()).collect();
        let params: &[Param<'_>] =
            &[&ids, &tokens, &delays, &outcomes, &errors, &session, &self.clock.shift()];
        settled(self.query(&self.statements.settle_pending, params).await?)
    }

    /// Ends running jobs without success; returns the ids that were.
    pub(crate) async fn settle_ended(
        &self,
        session: Uuid,
        ended: &[Ended],
    ) -> Result<HashSet<i64>, Error> {
        let ids: Vec<i64> = ended.iter().map(|job| job.lease.job_id).collect();
        let tokens: Vec<i64> = ended.iter().map(|job| job.lease.token).collect();
        let states: Vec<&str> = ended.iter().map(|job| job.state).collect();
        let errors: Vec<Option<&str>> = ended.iter().map(|job| job.error.as_deref()).collect();
        let params: &[Param<'_>] =
            &[&ids, &tokens, &states, &errors, &session, &self.clock.shift()];
        settled(self.query(&self.statements.settle_discarded, params).await?)
    }

    /// Deletes those of the leases that hold no job any more.
    pub(crate) async fn release_leases(&self, tokens: &[i64]) -> Result<(), Error> {
        self.query(&self.statements.lease_release, &[&tokens]).await?;
        Ok(())
    }

    /// Takes jobs back from sessions that have ended, up to `leases_max` leases at a time. Returns
    /// how many leases were looked at and how many jobs were freed.
    pub(crate) async fn rescue_jobs(&self, leases_max: i32) -> Result<(usize, i64), Error> {
        let params: &[Param<'_>] = &[&leases_max, &self.clock.shift()];
        let rows = self.query(&self.statements.rescue_jobs, params).await?;
        let Some(row) = rows.first() else { return Ok((0, 0)) };
        let tokens: Vec<i64> = row.try_get("tokens")?;
        if !tokens.is_empty() {
            self.release_leases(&tokens).await?;
        }
        Ok((tokens.len(), row.try_get("rescued")?))
    }
}

fn settled(rows: Vec<Row>) -> Result<HashSet<i64>, Error> {
    rows.iter().map(|row| Ok(row.try_get("id")?)).collect()
}

/// Reads the policy. Waits that cannot be read (somebody wrote the row by hand) are the usual ones:
/// the jobs are claimed already and must go on.
fn terms(row: &Row) -> Result<Terms, Error> {
    let timeout_ms: i64 = row.try_get("timeout_ms")?;
    let backoff: Json<Backoff> = row.try_get("backoff").unwrap_or_else(|error| {
        tracing::warn!(%error, "a subscription's backoff cannot be read; the usual one is used");
        Json(Backoff::default())
    });
    Ok(Terms {
        max_attempts: row.try_get("max_attempts")?,
        backoff: backoff.0,
        timeout: Duration::from_millis(u64::try_from(timeout_ms).unwrap_or(1)),
    })
}

/// Reads the jobs that a fan-out started, which may be of several subscriptions.
pub(super) fn started(rows: &[Row]) -> Result<Vec<Claimed>, Error> {
    let mut by_subscription: HashMap<i32, Arc<Terms>> = HashMap::new();
    let mut started = Vec::new();
    for row in rows {
        let Some(subscription) = row.try_get::<_, Option<i32>>("subscription_id")? else {
            continue;
        };
        let terms = match by_subscription.get(&subscription) {
            Some(terms) => Arc::clone(terms),
            None => Arc::new(terms(row)?),
        };
        started.push(claimed(row, &terms)?);
        by_subscription.insert(subscription, terms);
    }
    Ok(started)
}

fn claimed(row: &Row, terms: &Arc<Terms>) -> Result<Claimed, Error> {
    Ok(Claimed {
        lease: JobLease { job_id: row.try_get("id")?, token: row.try_get("lease_token")? },
        subscription_id: row.try_get("subscription_id")?,
        attempt: row.try_get("attempt")?,
        extra_attempts: row.try_get("extra_attempts")?,
        origin: row.try_get("origin")?,
        priority: row.try_get("priority")?,
        head_due_at: row.try_get("head_due_at")?,
        terms: Arc::clone(terms),
        found: found(row),
    })
}

fn found(row: &Row) -> Result<Found, Error> {
    let arguments: Option<Json<Box<RawValue>>> = row.try_get("arguments")?;
    let Some(Json(arguments)) = arguments else { return event(row).map(Found::Event) };
    Ok(Found::Enqueued(EnqueuedJob {
        arguments,
        tenant: row.try_get("tenant")?,
        key: row.try_get("key")?,
        tick_at: row.try_get("tick_at")?,
    }))
}

/// Reads an event from a row that names its columns as the table does, the id as `event_id`.
pub(crate) fn event(row: &Row) -> Result<Event, Error> {
    let gone = || {
        Error::new(ErrorKind::Bug, "a job's event has no row in event")
            .with_hint("its partition was dropped or its row deleted by hand")
    };
    if row.try_get::<_, Option<Uuid>>("event_id")?.is_none() {
        return Err(gone());
    }
    let data: Option<Json<Box<RawValue>>> = row.try_get("data")?;
    let headers: Option<Json<BTreeMap<String, String>>> = row.try_get("headers")?;
    let payload = match data {
        Some(Json(text)) => Payload::Json(text),
        None => Payload::Bytes {
            content_type: row.try_get::<_, Option<String>>("content_type")?.ok_or_else(gone)?,
            body: row.try_get::<_, Option<Vec<u8>>>("body")?.ok_or_else(gone)?,
        },
    };
    Ok(Event {
        id: row.try_get("event_id")?,
        seq: row.try_get("seq")?,
        tenant: row.try_get("tenant")?,
        event_type: row.try_get("type")?,
        subject: row.try_get("subject")?,
        key: row.try_get("key")?,
        occurred_at: row.try_get::<_, OffsetDateTime>("occurred_at")?,
        payload,
        headers: headers.map(|Json(headers)| headers).unwrap_or_default(),
    })
}
