//! What the doctor asks of the database.
//!
//! How it fails: the database's error. Invariant: every count ends at [`COUNT_MAX`].

use time::OffsetDateTime;

use super::{Param, Store};
use crate::admin::{COUNT_MAX, Count};
use crate::{Error, ErrorKind};

/// What the server says about itself.
#[derive(Debug, Clone)]
pub(crate) struct ServerLook {
    pub(crate) version: String,
    pub(crate) number: i32,
    pub(crate) in_recovery: bool,
    pub(crate) now: OffsetDateTime,
    pub(crate) notification_queue_usage: f64,
}

/// How much is owed and failing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Backlog {
    pub(crate) owed: Count,
    pub(crate) oldest_age_ms: Option<i64>,
    pub(crate) failing: Count,
    pub(crate) poisoned: Count,
}

/// A session that lives, or is dead and still holds leases.
#[derive(Debug, Clone)]
pub(crate) struct SessionLook {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) runs_relay: bool,
    pub(crate) lives: bool,
}

/// The partitions of one table.
#[derive(Debug, Clone)]
pub(crate) struct NetRows {
    pub(crate) table: String,
    pub(crate) days_ahead: i32,
    pub(crate) in_net: Count,
}

/// Who holds the vacuum horizon back.
#[derive(Debug, Clone)]
pub(crate) struct Holder {
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) detail: String,
    pub(crate) transactions: i64,
    pub(crate) held_ms: Option<i64>,
}

impl Store {
    /// Asks the server about itself.
    pub(crate) async fn look_at_server(&self) -> Result<ServerLook, Error> {
        let rows = self.query(&self.statements.doctor_server, &[]).await?;
        let row = rows.first().ok_or_else(|| no_row("doctor_server"))?;
        Ok(ServerLook {
            version: row.try_get("version")?,
            number: row.try_get("number")?,
            in_recovery: row.try_get("in_recovery")?,
            now: row.try_get("now")?,
            notification_queue_usage: row.try_get("notification_queue_usage")?,
        })
    }

    /// Whether two connections that are open at once share one server process, so that something
    /// between hands out another one for each transaction.
    pub(crate) async fn shares_server_process(&self) -> Result<bool, Error> {
        let (one, other) = (self.connection().await?, self.connection().await?);
        let statement = &self.statements.doctor_server;
        let mut pids: Vec<i32> = Vec::new();
        for connection in [&one, &other] {
            let rows = self.query_on(connection, statement, &[]).await?;
            pids.push(rows.first().ok_or_else(|| no_row("doctor_server"))?.try_get("pid")?);
        }
        Ok(pids.first() == pids.last())
    }

    /// How much is owed and failing.
    pub(crate) async fn backlog(&self) -> Result<Backlog, Error> {
        let params: &[Param<'_>] = &[&COUNT_MAX, &self.clock.shift()];
        let rows = self.query(&self.statements.doctor_backlog, params).await?;
        let row = rows.first().ok_or_else(|| no_row("doctor_backlog"))?;
        Ok(Backlog {
            owed: Count::of(row.try_get("owed")?),
            oldest_age_ms: row.try_get("oldest_age_ms")?,
            failing: Count::of(row.try_get("failing")?),
            poisoned: Count::of(row.try_get("poisoned")?),
        })
    }

    /// The sessions that live, and the dead ones that still hold leases.
    pub(crate) async fn sessions(&self) -> Result<Vec<SessionLook>, Error> {
        let rows = self.query(&self.statements.doctor_sessions, &[]).await?;
        rows.iter()
            .map(|row| {
                Ok(SessionLook {
                    name: row.try_get("name")?,
                    version: row.try_get("version")?,
                    runs_relay: row.try_get("runs_relay")?,
                    lives: row.try_get("lives")?,
                })
            })
            .collect()
    }

    /// The partitions of each table.
    pub(crate) async fn net_rows(&self) -> Result<Vec<NetRows>, Error> {
        let rows = self.query(&self.statements.doctor_partitions, &[&COUNT_MAX]).await?;
        rows.iter()
            .map(|row| {
                Ok(NetRows {
                    table: row.try_get("parent")?,
                    days_ahead: row.try_get("days_ahead")?,
                    in_net: Count::of(row.try_get("in_net")?),
                })
            })
            .collect()
    }

    /// Who holds the vacuum horizon back, the oldest first.
    pub(crate) async fn horizon_holders(&self) -> Result<Vec<Holder>, Error> {
        let rows = self.query(&self.statements.doctor_horizon, &[]).await?;
        rows.iter()
            .map(|row| {
                Ok(Holder {
                    kind: row.try_get("kind")?,
                    name: row.try_get("name")?,
                    detail: row.try_get::<_, Option<String>>("detail")?.unwrap_or_default(),
                    transactions: row.try_get("transactions")?,
                    held_ms: row.try_get("held_ms")?,
                })
            })
            .collect()
    }
}

fn no_row(statement: &str) -> Error {
    Error::new(ErrorKind::Bug, format!("{statement} returned no row"))
}
