//! What the doctor asks of the database.
//!
//! How it fails: the database's error. Invariants: every count ends at [`COUNT_MAX`]; nothing is
//! changed.

use time::OffsetDateTime;
use tokio_postgres::Row;

use super::{Param, Store};
use crate::admin::{COUNT_MAX, Count};
use crate::sql::Statement;
use crate::{Error, ErrorKind};

/// What the server says about itself and about this connection.
#[derive(Debug, Clone)]
pub(crate) struct ServerLook {
    pub(crate) version: String,
    pub(crate) number: i32,
    pub(crate) in_recovery: bool,
    pub(crate) read_only: bool,
    pub(crate) now: OffsetDateTime,
    /// The port that the server listens on; none over a socket of the file system.
    pub(crate) port: Option<i32>,
    pub(crate) notification_queue_usage: f64,
    pub(crate) role: String,
    /// Whether sessions of other roles are shown to this one.
    pub(crate) sees_all_sessions: bool,
}

/// The connections of the server, and Postrider's own among them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Connections {
    pub(crate) most: i64,
    pub(crate) used: i64,
    pub(crate) working: i64,
    pub(crate) listening: i64,
    pub(crate) locking: i64,
}

/// How much is owed and failing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Backlog {
    pub(crate) owed: Count,
    pub(crate) oldest_age_ms: Option<i64>,
    pub(crate) failing: Count,
    pub(crate) poisoned: Count,
}

/// How a session stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SessionState {
    /// It is renewed in time.
    Lives,
    /// Its lease ran out, and nobody has ended it.
    Late,
    /// It is over, and its jobs are not taken back yet.
    Holds,
    /// It was lost lately.
    Lost,
}

/// A session that matters.
#[derive(Debug, Clone)]
pub(crate) struct SessionLook {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) runs_relay: bool,
    pub(crate) state: SessionState,
    /// How long ago its lease ran out or it was ended; negative while it lives.
    pub(crate) over_ms: i64,
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
    /// `session`, `prepared`, `slot` or `standby`.
    pub(crate) kind: String,
    /// A process id or a name.
    pub(crate) name: String,
    pub(crate) application: String,
    pub(crate) detail: String,
    pub(crate) transactions: i64,
    pub(crate) held_ms: Option<i64>,
    pub(crate) query_ms: Option<i64>,
}

/// How autovacuum treats one table.
#[derive(Debug, Clone)]
pub(crate) struct Vacuumed {
    pub(crate) table: String,
    pub(crate) dead: i64,
    pub(crate) vacuumed_ms: Option<i64>,
    pub(crate) enabled: bool,
    pub(crate) server_enabled: bool,
    /// How many dead rows there may be before it comes.
    pub(crate) threshold: i64,
}

/// What the current role lacks on one object.
#[derive(Debug, Clone)]
pub(crate) struct Lacking {
    pub(crate) object: String,
    pub(crate) privileges: String,
    pub(crate) role: String,
}

impl Store {
    /// Asks the server about itself.
    pub(crate) async fn look_at_server(&self) -> Result<ServerLook, Error> {
        let row = self.only_row(&self.statements.doctor_server, &[]).await?;
        Ok(ServerLook {
            version: row.try_get("version")?,
            number: row.try_get("number")?,
            in_recovery: row.try_get("in_recovery")?,
            read_only: row.try_get("read_only")?,
            now: row.try_get("now")?,
            port: row.try_get("port")?,
            notification_queue_usage: row.try_get("notification_queue_usage")?,
            role: row.try_get("role")?,
            sees_all_sessions: row.try_get("sees_all_sessions")?,
        })
    }

    /// Counts connections; Postrider's own begin with `name`.
    pub(crate) async fn connections(&self, name: &str) -> Result<Connections, Error> {
        let row = self.only_row(&self.statements.doctor_connections, &[&name]).await?;
        Ok(Connections {
            most: row.try_get("most")?,
            used: row.try_get("used")?,
            working: row.try_get("working")?,
            listening: row.try_get("listening")?,
            locking: row.try_get("locking")?,
        })
    }

    /// How much is owed and failing.
    pub(crate) async fn backlog(&self) -> Result<Backlog, Error> {
        let params: &[Param<'_>] = &[&COUNT_MAX, &self.clock.shift()];
        let row = self.only_row(&self.statements.doctor_backlog, params).await?;
        Ok(Backlog {
            owed: Count::of(row.try_get("owed")?),
            oldest_age_ms: row.try_get("oldest_age_ms")?,
            failing: Count::of(row.try_get("failing")?),
            poisoned: Count::of(row.try_get("poisoned")?),
        })
    }

    /// The sessions that matter, the newest first.
    pub(crate) async fn sessions(&self) -> Result<Vec<SessionLook>, Error> {
        let rows = self.query(&self.statements.doctor_sessions, &[]).await?;
        rows.iter()
            .map(|row| {
                let state = match row.try_get::<_, &str>("state")? {
                    "lives" => SessionState::Lives,
                    "late" => SessionState::Late,
                    "holds" => SessionState::Holds,
                    _ => SessionState::Lost,
                };
                Ok(SessionLook {
                    name: row.try_get("name")?,
                    version: row.try_get("version")?,
                    runs_relay: row.try_get("runs_relay")?,
                    state,
                    over_ms: row.try_get("over_ms")?,
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
                    application: row.try_get("application")?,
                    detail: row.try_get::<_, Option<String>>("detail")?.unwrap_or_default(),
                    transactions: row.try_get("transactions")?,
                    held_ms: row.try_get("held_ms")?,
                    query_ms: row.try_get("query_ms")?,
                })
            })
            .collect()
    }

    /// How autovacuum treats the tables that change most.
    pub(crate) async fn vacuumed(&self) -> Result<Vec<Vacuumed>, Error> {
        let rows = self.query(&self.statements.doctor_vacuum, &[]).await?;
        rows.iter()
            .map(|row| {
                Ok(Vacuumed {
                    table: row.try_get("table")?,
                    dead: row.try_get("dead")?,
                    vacuumed_ms: row.try_get("vacuumed_ms")?,
                    enabled: row.try_get("enabled")?,
                    server_enabled: row.try_get("server_enabled")?,
                    threshold: row.try_get("threshold")?,
                })
            })
            .collect()
    }

    /// What the current role may not do although an engine must.
    pub(crate) async fn lacking(&self) -> Result<Vec<Lacking>, Error> {
        let rows = self.query(&self.statements.doctor_privileges, &[]).await?;
        rows.iter()
            .map(|row| {
                Ok(Lacking {
                    object: row.try_get("object")?,
                    privileges: row.try_get("privileges")?,
                    role: row.try_get("role")?,
                })
            })
            .collect()
    }

    /// The row of a statement that always returns one.
    async fn only_row(&self, statement: &Statement, params: &[Param<'_>]) -> Result<Row, Error> {
        self.query(statement, params).await?.into_iter().next().ok_or_else(|| {
            Error::new(ErrorKind::Bug, format!("{} returned no row", statement.name))
        })
    }
}
