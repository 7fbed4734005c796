//! What administration asks about events.
//!
//! How it fails: the database's error. Invariant: an event is given up in a transaction that holds
//! the routing lock in share mode, as a fan-out does, so that the retention of its day waits.

use time::OffsetDateTime;
use tokio_postgres::Row;
use uuid::Uuid;

use super::{Param, Store, jobs};
use crate::admin::{EventFilter, EventJob, EventRef, EventState, EventSummary, FanoutFailure};
use crate::{Error, Event, JobState};

/// An event that was found, and what became of it.
#[derive(Debug, Clone)]
pub(crate) struct FoundEvent {
    pub(crate) seq: i64,
    pub(crate) occurred_at: OffsetDateTime,
    pub(crate) state: EventState,
    pub(crate) fanned_out_at: Option<OffsetDateTime>,
    pub(crate) routing_version: Option<i64>,
    attempts: Option<i32>,
    retry_at: Option<OffsetDateTime>,
    poisoned_at: Option<OffsetDateTime>,
    last_error: Option<String>,
}

impl FoundEvent {
    /// How its fan-out failed, while it is failing or poisoned.
    pub(crate) fn failure(&self) -> Option<FanoutFailure> {
        let (retry_at, poisoned_at) = (self.retry_at, self.poisoned_at);
        let last_error = self.last_error.clone();
        Some(FanoutFailure { attempts: self.attempts?, retry_at, poisoned_at, last_error })
    }
}

impl Store {
    /// A page of events, newest first, and one more when there is another page.
    pub(crate) async fn events(&self, filter: &EventFilter) -> Result<Vec<EventSummary>, Error> {
        let statement = match filter.state {
            Some(EventState::Owed) => &self.statements.event_page_owed,
            Some(EventState::Failing | EventState::Poisoned) => &self.statements.event_page_failed,
            Some(EventState::FannedOut | EventState::Skipped) | None => {
                &self.statements.event_page_any
            }
        };
        let regex = filter.type_glob.as_ref().map(postrider_core::Glob::to_regex);
        let state = filter.state.map(EventState::as_str);
        let limit = filter.limit + 1;
        let params: &[Param<'_>] = &[
            &filter.before,
            &regex,
            &filter.tenant,
            &filter.subject,
            &state,
            &filter.since,
            &limit,
        ];
        self.query(statement, params).await?.iter().map(summary).collect()
    }

    /// Finds an event.
    pub(crate) async fn find_event(&self, event: EventRef) -> Result<Option<FoundEvent>, Error> {
        let (id, seq): (Option<Uuid>, Option<i64>) = match event {
            EventRef::Id(id) => (Some(id), None),
            EventRef::Seq(seq) => (None, Some(seq)),
        };
        let rows = self.query(&self.statements.event_find, &[&id, &seq]).await?;
        rows.first().map(found).transpose()
    }

    /// The event itself, unless its row is gone.
    pub(crate) async fn read_event(&self, found: &FoundEvent) -> Result<Option<Event>, Error> {
        let params: &[Param<'_>] = &[&found.seq, &found.occurred_at];
        let rows = self.query(&self.statements.event_read, params).await?;
        rows.first().map(jobs::event).transpose()
    }

    /// The jobs that its subscriptions got.
    pub(crate) async fn jobs_of_event(&self, found: &FoundEvent) -> Result<Vec<EventJob>, Error> {
        let params: &[Param<'_>] = &[&found.seq, &found.occurred_at];
        let rows = self.query(&self.statements.event_jobs, params).await?;
        rows.iter()
            .map(|row| {
                let state: Option<&str> = row.try_get("state")?;
                Ok(EventJob {
                    subscription: row.try_get("subscription")?,
                    job_id: row.try_get("job_id")?,
                    state: JobState::ALL.into_iter().find(|known| Some(known.as_str()) == state),
                    coalesced_into: row.try_get("coalesced_seq")?,
                    coalesced_into_id: row.try_get("coalesced_id")?,
                })
            })
            .collect()
    }

    /// Puts a failing or poisoned event back. Returns whether it was one.
    pub(crate) async fn requeue_event(&self, seq: i64) -> Result<bool, Error> {
        let params: &[Param<'_>] = &[&seq, &self.clock.shift()];
        let rows = self.query(&self.statements.event_requeue, params).await?;
        if rows.is_empty() {
            return Ok(false);
        }
        self.ring("changed").await?;
        Ok(true)
    }

    /// Gives a failing or poisoned event up. Returns whether it was one.
    pub(crate) async fn skip_event(&self, seq: i64) -> Result<bool, Error> {
        let mut connection = self.connection().await?;
        let transaction = connection.begin().await?;
        self.query_on(&transaction, &self.statements.routing_share, &[&true]).await?;
        let params: &[Param<'_>] = &[&seq, &self.clock.shift()];
        let rows = self.query_on(&transaction, &self.statements.event_skip, params).await?;
        self.query_on(&transaction, &self.statements.bell_ring, &[&"fanned"]).await?;
        transaction.commit().await?;
        Ok(!rows.is_empty())
    }
}

fn state(row: &Row) -> Result<EventState, Error> {
    Ok(row.try_get::<_, &str>("state")?.parse()?)
}

fn found(row: &Row) -> Result<FoundEvent, Error> {
    Ok(FoundEvent {
        seq: row.try_get("seq")?,
        occurred_at: row.try_get("occurred_at")?,
        state: state(row)?,
        fanned_out_at: row.try_get("fanned_out_at")?,
        routing_version: row.try_get("routing_version")?,
        attempts: row.try_get("attempts")?,
        retry_at: row.try_get("retry_at")?,
        poisoned_at: row.try_get("poisoned_at")?,
        last_error: row.try_get("last_error")?,
    })
}

fn summary(row: &Row) -> Result<EventSummary, Error> {
    Ok(EventSummary {
        id: row.try_get("id")?,
        seq: row.try_get("seq")?,
        occurred_at: row.try_get("occurred_at")?,
        event_type: row.try_get("type")?,
        subject: row.try_get("subject")?,
        tenant: row.try_get("tenant")?,
        key: row.try_get("key")?,
        state: state(row)?,
        fanned_out_at: row.try_get("fanned_out_at")?,
        attempts: row.try_get("attempts")?,
        last_error: row.try_get("last_error")?,
    })
}
