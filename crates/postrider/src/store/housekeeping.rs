//! What maintenance asks of the database.
//!
//! How it fails: the database's error; each step is a transaction of its own. Invariant: an event
//! that is owed, poisoned or has an unfinished job outlives its day.

use std::time::{Duration, Instant};

use time::Date;

use super::Store;
use crate::Error;

/// More pinned events than this keep their whole day: moving them would hold its lock too long.
const PINNED_MAX: i32 = 10_000;
/// Most rows that one statement of a step in batches changes.
const BATCH: i64 = 1_000;

/// How often a day of events is tried while a lock is not had.
const DROP_TRIES: usize = 5;
/// How long one step may go on in batches before the others get their turn.
const STEP_LIMIT: Duration = Duration::from_secs(30);

impl Store {
    /// Makes partitions ahead, drops what is over its retention, cancels the jobs of deleted
    /// subscriptions, forgets old keys and sessions. Each step is on its own: one that fails keeps
    /// no other from its turn. Returns the first error.
    pub(crate) async fn housekeeping(&self) -> Result<(), Error> {
        let this = self.patient();
        let steps = [
            ("partitions", this.make_partitions().await),
            ("retention", this.drop_old_days().await),
            ("deleted subscriptions", this.cancel_jobs_of_deleted().await.map(|_| ())),
            ("kept events", this.forget_kept_events().await),
            ("idempotency keys", this.forget_record_keys().await),
            ("unique keys", this.forget_unique_keys().await),
            ("sessions", this.forget_sessions().await),
            ("globs", this.narrow_globs().await),
        ];
        let mut first = Ok(());
        for (step, outcome) in steps {
            if let Err(error) = outcome {
                tracing::warn!(error = &error as &dyn std::error::Error, step, "a step failed");
                first = first.and(Err(error));
            }
        }
        first
    }

    async fn make_partitions(&self) -> Result<(), Error> {
        let days = crate::migrate::PARTITION_DAYS_AHEAD;
        let shift = self.clock.shift();
        self.query(&self.statements.partitions_make, &[&days, &shift]).await?;
        Ok(())
    }

    /// Drops every day that is over its retention; one that cannot go keeps no other.
    async fn drop_old_days(&self) -> Result<(), Error> {
        let shift = self.clock.shift();
        let mut first = Ok(());
        for row in self.query(&self.statements.partitions_old, &[&shift]).await? {
            let (parent, day): (String, Date) = (row.try_get("parent")?, row.try_get("day")?);
            let dropped = match parent.as_str() {
                "event" => self.drop_event_day(day).await,
                _ => self.drop_history_day(&parent, day).await,
            };
            if let Err(error) = dropped {
                tracing::warn!(error = &error as &dyn std::error::Error, parent, %day,
                    "a day over its retention cannot be dropped");
                first = first.and(Err(error));
            }
        }
        first
    }

    async fn drop_history_day(&self, parent: &str, day: Date) -> Result<(), Error> {
        self.query(&self.statements.history_day_drop, &[&parent, &day]).await?;
        Ok(())
    }

    /// Drops a day of events, trying again for a moment while a lock is not had.
    async fn drop_event_day(&self, day: Date) -> Result<(), Error> {
        for _ in 0..DROP_TRIES {
            let mut connection = self.connection().await?;
            let transaction = connection.begin().await?;
            let params: &[super::Param<'_>] = &[&day, &PINNED_MAX];
            let rows = self.query_on(&transaction, &self.statements.event_day_drop, params).await?;
            transaction.commit().await?;
            let Some(row) = rows.first() else { return Ok(()) };
            let (result, pinned): (&str, i64) = (row.try_get("result")?, row.try_get("pinned")?);
            if pinned > 0 {
                let why = "events outlive their day: owed, poisoned or unfinished";
                tracing::warn!(%day, pinned, result, "{why}");
            }
            if result != "busy" {
                return Ok(());
            }
        }
        tracing::warn!(%day, "a day over its retention is in use; it is tried again later");
        Ok(())
    }

    /// Forgets kept events whose reason is gone, beside no fan-out and no job that comes back.
    async fn forget_kept_events(&self) -> Result<(), Error> {
        let started = Instant::now();
        while started.elapsed() < STEP_LIMIT {
            let shift = self.clock.shift();
            let rows = self.query(&self.statements.event_kept_look, &[&shift]).await?;
            if !rows.first().map_or(Ok(false), |row| row.try_get("any"))? {
                break;
            }
            let mut connection = self.connection().await?;
            let transaction = connection.begin().await?;
            self.lock_routing(&transaction).await?;
            let params: &[super::Param<'_>] = &[&BATCH, &shift];
            let rows =
                self.query_on(&transaction, &self.statements.event_kept_forget, params).await?;
            transaction.commit().await?;
            if is_last(&rows)? {
                break;
            }
        }
        Ok(())
    }

    async fn forget_record_keys(&self) -> Result<(), Error> {
        let started = Instant::now();
        while started.elapsed() < STEP_LIMIT {
            let params: &[super::Param<'_>] = &[&BATCH, &self.clock.shift()];
            if is_last(&self.query(&self.statements.record_key_forget, params).await?)? {
                break;
            }
        }
        Ok(())
    }

    async fn forget_unique_keys(&self) -> Result<(), Error> {
        let started = Instant::now();
        while started.elapsed() < STEP_LIMIT {
            let params: &[super::Param<'_>] = &[&BATCH, &self.clock.shift()];
            if is_last(&self.query(&self.statements.unique_key_forget, params).await?)? {
                break;
            }
        }
        Ok(())
    }

    async fn forget_sessions(&self) -> Result<(), Error> {
        self.query(&self.statements.session_forget, &[]).await?;
        Ok(())
    }

    /// Cancels the jobs of deleted subscriptions in batches, until none is left or the others must
    /// have their turn.
    pub(crate) async fn cancel_jobs_of_deleted(&self) -> Result<i64, Error> {
        let (started, mut cancelled) = (Instant::now(), 0);
        while started.elapsed() < STEP_LIMIT {
            let params: &[super::Param<'_>] = &[&BATCH, &self.clock.shift()];
            let rows = self.query(&self.statements.deleted_cancel, params).await?;
            cancelled += rows.first().map_or(Ok(0_i64), |row| row.try_get("cancelled"))?;
            if is_last(&rows)? {
                break;
            }
        }
        Ok(cancelled)
    }
}

/// Whether a statement in batches found fewer rows than a batch holds.
fn is_last(rows: &[tokio_postgres::Row]) -> Result<bool, Error> {
    let looked_at: i64 = rows.first().map_or(Ok(0), |row| row.try_get("looked_at"))?;
    Ok(looked_at < BATCH)
}
