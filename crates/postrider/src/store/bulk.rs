//! What acting on many jobs asks of the database.
//!
//! How it fails: the database's error; the batches before it stay done. Invariant: each batch looks
//! at a bounded number of rows and is a transaction of its own.

use super::{Param, Store};
use crate::Error;
use crate::admin::{BulkAction, JobSelection};
use crate::sql::Statement;

/// Most rows that one batch looks at.
const BATCH: i64 = 1_000;

/// One batch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Batch {
    /// The last id that was looked at; `None` when there was none.
    pub(crate) last_id: Option<i64>,
    /// How many were meant and changed, or would be.
    pub(crate) changed: i64,
    /// Whether no batch follows.
    pub(crate) is_last: bool,
}

/// Of which table a batch is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Jobs {
    Unfinished,
    Finished,
}

impl Store {
    /// The largest id of a job so far: what is enqueued during an action is not meant by it.
    pub(crate) async fn last_job_id(&self) -> Result<i64, Error> {
        let rows = self.query(&self.statements.job_last_id, &[]).await?;
        rows.first().map_or(Ok(0), |row| Ok(row.try_get("id")?))
    }

    /// Acts on the jobs of `states` that are selected in the batch after the id `after`; with no
    /// action, only counts them.
    pub(crate) async fn bulk(
        &self,
        jobs: Jobs,
        action: Option<BulkAction>,
        selection: &JobSelection,
        states: &[&str],
        (after, up_to): (i64, i64),
    ) -> Result<Batch, Error> {
        let run_at = match action {
            Some(BulkAction::Move { run_at }) => Some(run_at),
            _ => None,
        };
        let params: &[Param<'_>] = &[
            &after,
            &up_to,
            &BATCH,
            &self.clock.shift(),
            &selection.subscription,
            &selection.tenant,
            &selection.error,
            &selection.created_before,
            &states,
            &run_at,
        ];
        let statement = self.bulk_statement(jobs, action);
        let rows = match (jobs, action) {
            (Jobs::Finished, Some(BulkAction::Retry)) => {
                let mut connection = self.connection().await?;
                let transaction = connection.begin().await?;
                self.query_on(&transaction, &self.statements.routing_share, &[&true]).await?;
                let rows = self.query_on(&transaction, statement, params).await?;
                transaction.commit().await?;
                rows
            }
            _ => self.query(statement, params).await?,
        };
        let Some(row) = rows.first() else {
            return Ok(Batch { last_id: None, changed: 0, is_last: true });
        };
        let looked_at: i64 = row.try_get("looked_at")?;
        Ok(Batch {
            last_id: row.try_get("last_id")?,
            changed: row.try_get("changed")?,
            is_last: looked_at < BATCH,
        })
    }

    fn bulk_statement(&self, jobs: Jobs, action: Option<BulkAction>) -> &Statement {
        let all = &self.statements;
        match (jobs, action) {
            (Jobs::Unfinished, Some(BulkAction::Retry)) => &all.bulk_hurry,
            (Jobs::Unfinished, Some(BulkAction::Move { .. })) => &all.bulk_move,
            (Jobs::Unfinished, Some(BulkAction::Cancel)) => &all.bulk_cancel,
            (Jobs::Finished, Some(BulkAction::Retry)) => &all.bulk_revive,
            (Jobs::Finished, Some(BulkAction::Purge)) => &all.bulk_purge,
            (Jobs::Unfinished, _) => &all.bulk_count_unfinished,
            (Jobs::Finished, _) => &all.bulk_count_finished,
        }
    }
}
