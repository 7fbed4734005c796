//! What maintenance asks of the database.
//!
//! How it fails: the database's error; each step is a transaction of its own. Invariant: an event
//! that is owed, poisoned or has an unfinished job outlives its day.

use time::Date;

use super::Store;
use crate::Error;

/// More pinned events than this keep their whole day: moving them would hold its lock too long.
const PINNED_MAX: i32 = 10_000;
/// Most rows that one statement of a step in batches changes.
const BATCH: i64 = 1_000;

impl Store {
    /// Makes partitions ahead, drops what is over its retention, cancels the jobs of deleted
    /// subscriptions, forgets old keys and sessions.
    pub(crate) async fn housekeeping(&self) -> Result<(), Error> {
        let days = crate::migrate::PARTITION_DAYS_AHEAD;
        let shift = self.clock.shift();
        self.query(&self.statements.partitions_make, &[&days, &shift]).await?;
        self.drop_old_days().await?;
        self.cancel_jobs_of_deleted().await?;
        self.forget_kept_events().await?;
        self.query(&self.statements.record_key_forget, &[&BATCH, &shift]).await?;
        self.query(&self.statements.session_forget, &[]).await?;
        self.narrow_globs().await
    }

    async fn drop_old_days(&self) -> Result<(), Error> {
        let shift = self.clock.shift();
        for row in self.query(&self.statements.partitions_old, &[&shift]).await? {
            let (parent, day): (String, Date) = (row.try_get("parent")?, row.try_get("day")?);
            if parent != "event" {
                self.query(&self.statements.history_day_drop, &[&parent, &day]).await?;
                continue;
            }
            let params: &[super::Param<'_>] = &[&day, &PINNED_MAX];
            let rows = self.query(&self.statements.event_day_drop, params).await?;
            let Some(row) = rows.first() else { continue };
            let (result, pinned): (&str, i64) = (row.try_get("result")?, row.try_get("pinned")?);
            if pinned > 0 {
                let why = "events outlive their day: owed, poisoned or unfinished";
                tracing::warn!(%day, pinned, result, "{why}");
            }
        }
        Ok(())
    }

    /// Forgets kept events whose reason is gone, beside no fan-out and no job that comes back.
    async fn forget_kept_events(&self) -> Result<(), Error> {
        let shift = self.clock.shift();
        let rows = self.query(&self.statements.event_kept_look, &[&shift]).await?;
        if !rows.first().map_or(Ok(false), |row| row.try_get("any"))? {
            return Ok(());
        }
        let mut connection = self.connection().await?;
        let transaction = connection.transaction().await?;
        self.lock_routing(&transaction).await?;
        let params: &[super::Param<'_>] = &[&BATCH, &shift];
        self.query_on(&transaction, &self.statements.event_kept_forget, params).await?;
        transaction.commit().await?;
        Ok(())
    }

    /// Cancels the jobs of deleted subscriptions in batches, until none is left.
    pub(crate) async fn cancel_jobs_of_deleted(&self) -> Result<i64, Error> {
        let mut cancelled = 0;
        loop {
            let params: &[super::Param<'_>] = &[&BATCH, &self.clock.shift()];
            let rows = self.query(&self.statements.deleted_cancel, params).await?;
            let count: i64 = rows.first().map_or(Ok(0), |row| row.try_get("cancelled"))?;
            cancelled += count;
            if count < BATCH {
                return Ok(cancelled);
            }
        }
    }
}
