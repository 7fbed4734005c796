//! What administration asks about jobs.
//!
//! How it fails: the database's error. Invariant: a finished job comes back only in a transaction
//! that holds the routing lock in share mode, since the retention of events relies on it.

use serde_json::value::RawValue;
use time::OffsetDateTime;
use tokio_postgres::Row;
use tokio_postgres::types::Json;

use super::{Param, Store};
use crate::admin::{JobAttempt, JobFilter, JobSummary, JobView, PAGE_MAX};
use crate::{Error, JobState};

/// A job with what a list does not show.
#[derive(Debug)]
pub(crate) struct FoundJob {
    pub(crate) summary: JobSummary,
    pub(crate) output: Option<Box<RawValue>>,
    pub(crate) arguments: Option<Box<RawValue>>,
    pub(crate) key: Option<String>,
    pub(crate) tick_at: Option<OffsetDateTime>,
}

impl Store {
    /// A page of jobs, newest first, and one more when there is another page.
    pub(crate) async fn jobs(&self, filter: &JobFilter) -> Result<Vec<JobSummary>, Error> {
        let stored = filter.state.map(|view| vec![view.stored().as_str()]);
        let (due, tried): (Option<&str>, Option<bool>) = match filter.state {
            Some(JobView::Pending) => (Some("now"), None),
            Some(JobView::Scheduled) => (Some("later"), Some(false)),
            Some(JobView::Retryable) => (Some("later"), Some(true)),
            _ => (None, None),
        };
        let limit = filter.limit + 1;
        let params: &[Param<'_>] = &[
            &self.clock.shift(),
            &filter.before,
            &stored,
            &due,
            &tried,
            &filter.subscription,
            &filter.queue,
            &filter.tenant,
            &limit,
        ];
        let rows = self.query(&self.statements.job_page, params).await?;
        rows.iter().map(summary).collect()
    }

    /// One job with what came of it.
    pub(crate) async fn find_job(&self, id: i64) -> Result<Option<FoundJob>, Error> {
        let params: &[Param<'_>] = &[&self.clock.shift(), &id];
        let rows = self.query(&self.statements.job_one, params).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let output: Option<Json<Box<RawValue>>> = row.try_get("output")?;
        let arguments: Option<Json<Box<RawValue>>> = row.try_get("arguments")?;
        Ok(Some(FoundJob {
            summary: summary(row)?,
            output: output.map(|Json(output)| output),
            arguments: arguments.map(|Json(arguments)| arguments),
            key: row.try_get("key")?,
            tick_at: row.try_get("tick_at")?,
        }))
    }

    /// The attempts of a job that did not complete it, in order: the newest, a page at most.
    pub(crate) async fn job_attempts(&self, id: i64) -> Result<Vec<JobAttempt>, Error> {
        let rows = self.query(&self.statements.job_attempts, &[&id, &PAGE_MAX]).await?;
        rows.iter()
            .map(|row| {
                Ok(JobAttempt {
                    attempt: row.try_get("attempt")?,
                    started_at: row.try_get("started_at")?,
                    finished_at: row.try_get("finished_at")?,
                    worker: row.try_get("worker")?,
                    outcome: row.try_get("outcome")?,
                    error: row.try_get("error")?,
                })
            })
            .collect()
    }

    /// Makes a pending job due now. Returns whether it was so already, or `None` when it is not
    /// pending.
    pub(crate) async fn hurry_job(&self, id: i64) -> Result<Option<bool>, Error> {
        let params: &[Param<'_>] = &[&id, &self.clock.shift()];
        let rows = self.query(&self.statements.job_hurry, params).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        self.ring("changed").await?;
        Ok(Some(row.try_get("was_due")?))
    }

    /// Brings a discarded or cancelled job back. Returns whether it could.
    pub(crate) async fn revive_job(&self, id: i64) -> Result<bool, Error> {
        let mut connection = self.connection().await?;
        let transaction = connection.begin().await?;
        self.query_on(&transaction, &self.statements.routing_share, &[&true]).await?;
        let params: &[Param<'_>] = &[&id, &self.clock.shift()];
        let rows = self.query_on(&transaction, &self.statements.job_revive, params).await?;
        self.query_on(&transaction, &self.statements.bell_ring, &[&"changed"]).await?;
        transaction.commit().await?;
        Ok(!rows.is_empty())
    }

    /// Calls an unfinished job off. Returns what it was, or `None` when there is no such job.
    pub(crate) async fn cancel_job(
        &self,
        id: i64,
        reason: &str,
    ) -> Result<Option<JobState>, Error> {
        let params: &[Param<'_>] = &[&id, &reason, &self.clock.shift()];
        let rows = self.query(&self.statements.job_cancel, params).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let was: &str = row.try_get("was")?;
        Ok(JobState::ALL.into_iter().find(|state| state.as_str() == was))
    }
}

fn summary(row: &Row) -> Result<JobSummary, Error> {
    Ok(JobSummary {
        id: row.try_get("id")?,
        state: row.try_get::<_, &str>("shown")?.parse()?,
        subscription: row.try_get("subscription")?,
        subscription_deleted: row.try_get("subscription_deleted")?,
        queue: row.try_get("queue")?,
        origin: row.try_get("origin")?,
        tenant: row.try_get("tenant")?,
        priority: row.try_get("priority")?,
        attempt: row.try_get("attempt")?,
        attempts_max: row.try_get("attempts_max")?,
        created_at: row.try_get("created_at")?,
        due_at: row.try_get("due_at")?,
        started_at: row.try_get("started_at")?,
        finished_at: row.try_get("finished_at")?,
        cancel_requested_at: row.try_get("cancel_requested_at")?,
        worker: row.try_get("worker")?,
        event_seq: row.try_get("event_seq")?,
        event_id: row.try_get("event_id")?,
        event_type: row.try_get("event_type")?,
        subject: row.try_get("subject")?,
        last_error: row.try_get("last_error")?,
    })
}
