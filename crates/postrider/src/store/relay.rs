//! What the relay asks of the database.
//!
//! How it fails: the database's error; a failed fan-out has changed nothing. Invariant: every
//! fan-out runs in a transaction that holds the routing lock in share mode, taken before the
//! statement's snapshot.

use std::time::Duration;

use futures_util::join;
use serde_json::value::RawValue;
use tokio_postgres::Row;
use tokio_postgres::types::Json;
use uuid::Uuid;

use super::{Claimed, Link, Store, micros};
use crate::Error;
use crate::sql::Statement;

/// What one fan-out transaction did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Fanned {
    /// Events that were fanned out.
    pub(crate) events: i64,
    /// Jobs that were made.
    pub(crate) jobs: i64,
    /// The largest sequence number among them.
    pub(crate) last_seq: Option<i64>,
    /// Whether the filter of a subscription failed on one of them.
    pub(crate) filter_failed: bool,
    /// Types that must be declared first; nothing was fanned out then.
    pub(crate) undeclared: Vec<String>,
}

/// An owed event that failed before, claimed for one more try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) seq: i64,
    /// The number of this attempt, 1 for the first.
    pub(crate) attempt: i32,
}

/// What the floor needs to know about running transactions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FloorLook {
    pub(crate) next_id: i64,
    pub(crate) oldest_id: i64,
    pub(crate) oldest_owed: Option<i64>,
}

/// An object from the id of a subscription to the error of its filter.
type FilterErrors = Json<Box<RawValue>>;

/// The code of a fan-out that met types which must be declared first; its hint lists them.
const UNDECLARED_TYPES: &str = "PR008";

const BEGIN: &str = include_str!("../../sql/session/begin.sql");
const COMMIT: &str = "commit";

impl Store {
    /// Fans out up to `batch_max` owed events above `bound`, in one transaction.
    pub(crate) async fn fan_out_batch(&self, bound: i64, batch_max: i32) -> Result<Fanned, Error> {
        let params: &[super::Param<'_>] = &[&bound, &batch_max, &self.clock.shift()];
        Ok(self.fan_out(&self.statements.fanout_batch, params, false).await?.0)
    }

    /// The same, with bound and largest batch, and starts under `session` up to so many jobs of
    /// the given subscriptions; returns those too. The commit waits for the disk then, as that of a
    /// claim does.
    pub(crate) async fn fan_out_and_start(
        &self,
        (bound, batch_max): (i64, i32),
        session: Uuid,
        (subscriptions, most): (&[i32], i64),
    ) -> Result<(Fanned, Vec<Claimed>), Error> {
        let (shift, statement) = (self.clock.shift(), &self.statements.fanout_start);
        let params: &[super::Param<'_>] =
            &[&bound, &batch_max, &shift, &session, &subscriptions, &most];
        let (fanned, rows) = self.fan_out(statement, params, true).await?;
        Ok((fanned, super::jobs::started(&rows)?))
    }

    /// Fans out one event that failed before; `failure` was claimed and its attempt committed.
    pub(crate) async fn fan_out_failure(&self, failure: Failure) -> Result<Fanned, Error> {
        let params: &[super::Param<'_>] = &[&failure.seq, &failure.attempt, &self.clock.shift()];
        Ok(self.fan_out(&self.statements.fanout_one, params, false).await?.0)
    }

    /// Begin, lock, statement and commit in one round trip. When the statement fails the server
    /// turns the commit into a rollback, so nothing needs to be taken back.
    async fn fan_out(
        &self,
        statement: &Statement,
        params: &[super::Param<'_>],
        waits_for_disk: bool,
    ) -> Result<(Fanned, Vec<Row>), Error> {
        let connection = self.connection().await?;
        let result = self.fan_out_on(&connection, statement, params, waits_for_disk).await;
        drop(connection);
        let rows = match result {
            Err(error) if error.sqlstate() == Some(UNDECLARED_TYPES) => {
                return Ok((undeclared(&error)?, Vec::new()));
            }
            result => result?,
        };
        let Some(row) = rows.first() else { return Ok((Fanned::default(), rows)) };
        let filter_errors: Option<FilterErrors> = row.try_get("filter_errors")?;
        if let Some(errors) = &filter_errors {
            self.query(&self.statements.filter_error, &[errors]).await?;
        }
        let fanned = Fanned {
            events: row.try_get("events")?,
            jobs: row.try_get("jobs")?,
            last_seq: row.try_get("last_seq")?,
            filter_failed: filter_errors.is_some(),
            undeclared: Vec::new(),
        };
        Ok((fanned, rows))
    }

    async fn fan_out_on(
        &self,
        connection: &Link,
        statement: &Statement,
        params: &[super::Param<'_>],
        waits_for_disk: bool,
    ) -> Result<Vec<Row>, Error> {
        // Prepared before anything is sent: a statement that had to be prepared on the way would be
        // overtaken by the commit.
        let share = self.ready(connection, &self.statements.routing_share).await?;
        let statement = self.ready(connection, statement).await?;
        let disk: &[super::Param<'_>] = &[&waits_for_disk];
        let (begun, shared, rows, committed) = join!(
            self.command(connection, BEGIN),
            self.run_ready(connection, &share, disk),
            self.run_ready(connection, &statement, params),
            self.command(connection, COMMIT),
        );
        begun?;
        let rows = first_failure(shared, rows)?;
        committed?;
        Ok(rows)
    }

    /// Moves the next owed event above `bound` to the failures, its first attempt counted.
    pub(crate) async fn suspect_next(
        &self,
        bound: i64,
        wait: Duration,
    ) -> Result<Option<Failure>, Error> {
        let params: &[super::Param<'_>] = &[&bound, &micros(wait), &self.clock.shift()];
        let rows = self.query(&self.statements.failure_suspect, params).await?;
        rows.first().map(failure).transpose()
    }

    /// Claims the next failed event whose turn it is, but for those in `tried`, and counts the
    /// attempt.
    pub(crate) async fn claim_failure(
        &self,
        wait: Duration,
        tried: &[i64],
    ) -> Result<Option<Failure>, Error> {
        let params: &[super::Param<'_>] = &[&micros(wait), &self.clock.shift(), &tried];
        let rows = self.query(&self.statements.failure_claim, params).await?;
        rows.first().map(failure).transpose()
    }

    /// Writes down why a try failed. Returns whether the event is poisoned now.
    pub(crate) async fn note_failure(
        &self,
        failure: Failure,
        error: &str,
        attempts_max: i32,
    ) -> Result<bool, Error> {
        let shift = self.clock.shift();
        let params: &[super::Param<'_>] =
            &[&failure.seq, &failure.attempt, &error, &attempts_max, &shift];
        let rows = self.query(&self.statements.failure_note, params).await?;
        rows.first().map_or(Ok(false), |row| Ok(row.try_get("poisoned")?))
    }

    /// Gives an attempt back to events that failed for a reason that was not theirs.
    pub(crate) async fn refund_failures(&self, seqs: &[i64]) -> Result<(), Error> {
        self.query(&self.statements.failure_refund, &[&seqs]).await?;
        Ok(())
    }

    /// The newest sequence number drawn so far.
    pub(crate) async fn newest_seq(&self) -> Result<i64, Error> {
        let rows = self.query(&self.statements.floor_probe, &[]).await?;
        rows.first().map_or(Ok(0), |row| Ok(row.try_get("seq")?))
    }

    /// The running transactions and the oldest owed event above `floor`.
    pub(crate) async fn floor_look(&self, floor: i64) -> Result<FloorLook, Error> {
        let connection = self.connection().await?;
        let rows = self.query_on(&connection, &self.statements.floor_settle, &[&floor]).await?;
        let row = rows.first().ok_or_else(|| {
            Error::new(crate::ErrorKind::Bug, "the floor statement returned no row")
        })?;
        Ok(FloorLook {
            next_id: row.try_get("next_id")?,
            oldest_id: row.try_get("oldest_id")?,
            oldest_owed: row.try_get("oldest_owed")?,
        })
    }

    /// Sends a word to every process of this schema.
    pub(crate) async fn ring(&self, word: &str) -> Result<(), Error> {
        self.query(&self.statements.bell_ring, &[&word]).await?;
        Ok(())
    }
}

/// The rows of the second of two statements that travelled together. When both failed, the one that
/// only says that the transaction is aborted already is not the reason.
fn first_failure(
    first: Result<Vec<Row>, Error>,
    second: Result<Vec<Row>, Error>,
) -> Result<Vec<Row>, Error> {
    match (first, second) {
        (Ok(_), second) => second,
        (Err(_), Err(second)) if second.sqlstate() != Some("25P02") => Err(second),
        (Err(first), _) => Err(first),
    }
}

/// Nothing was fanned out: the types that the error lists must be declared first.
fn undeclared(error: &Error) -> Result<Fanned, Error> {
    let listed = error.hint().unwrap_or_default();
    let undeclared = serde_json::from_str(listed).map_err(|error| {
        Error::new(crate::ErrorKind::Bug, "undeclared types cannot be read").with_source(error)
    })?;
    Ok(Fanned { undeclared, ..Fanned::default() })
}

fn failure(row: &Row) -> Result<Failure, Error> {
    Ok(Failure { seq: row.try_get("seq")?, attempt: row.try_get("attempts")? })
}
