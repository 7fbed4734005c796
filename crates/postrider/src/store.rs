//! The only door to the database: a pool, the statements of one schema, and the clock.
//!
//! How it fails: [`Error`] with the SQLSTATE. Invariants: no connection is kept across anything but
//! statements; time is the database's, moved by [`Clock`] in tests alone.

mod admin_doctor;
mod admin_events;
mod admin_jobs;
mod admin_subscriptions;
mod bulk;
mod housekeeping;
mod jobs;
mod link;
mod periodic;
mod privileges;
mod relay;
mod routing;
mod sessions;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use deadpool_postgres::{Object, PoolError, TimeoutType};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{GenericClient as _, Row};

pub(crate) use admin_doctor::{
    Backlog, Connections, Holder, Lacking, NetRows, ServerLook, SessionLook, SessionState, Vacuumed,
};
pub(crate) use admin_jobs::FoundJob;
pub(crate) use bulk::Jobs;
pub(crate) use jobs::{Claimed, Ended, Found, PendingAgain, Terms};
use link::Home;
pub(crate) use link::{Connection, Link, LinkTransaction};
pub(crate) use periodic::{DuePeriodic, Fired};
pub(crate) use relay::{Failure, Fanned, FloorLook};
pub(crate) use routing::{StoredSubscription, StoredType};

use crate::sql::{Statement, Statements};
use crate::{Database, Error, ErrorKind, Schema};

/// How far the clock of Postrider is ahead of the database's: zero, except in tests that drive
/// time.
#[derive(Debug, Clone, Default)]
pub(crate) struct Clock(Arc<AtomicI64>);

impl Clock {
    /// The shift in microseconds, as the statements take it.
    pub(crate) fn shift(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Moves the clock forward.
    pub(crate) fn advance(&self, by: Duration) {
        self.0.fetch_add(micros(by), Ordering::Relaxed);
    }
}

/// A duration as the statements take it.
pub(crate) fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX / 4)
}

/// Whether statements may be prepared under a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StatementMode {
    /// Prepared once for each connection: the server keeps the plan.
    Prepared,
    /// Parsed each time: works behind poolers that hand out another server connection each time.
    Unnamed,
}

/// The pool and all that is needed to use it. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Store {
    home: Arc<Home>,
    pub(crate) schema: Schema,
    pub(crate) statements: Arc<Statements>,
    pub(crate) clock: Clock,
    mode: StatementMode,
    /// How long the answer to one statement may take.
    limit: Duration,
}

/// What a connection of our own is told first. Not behind a pooler, where it would reach others.
const SETTINGS: &str = include_str!("../sql/session/settings.sql");

/// One parameter of a statement.
pub(crate) type Param<'a> = &'a (dyn ToSql + Sync);

impl Store {
    pub(crate) fn new(database: &Database, schema: &Schema) -> Result<Self, Error> {
        let home = Home { pool: database.pool()?, database: database.clone() };
        Ok(Self {
            home: Arc::new(home),
            schema: schema.clone(),
            statements: Arc::new(Statements::new(schema)),
            clock: Clock::default(),
            mode: StatementMode::Prepared,
            limit: database.answer_limit_set(),
        })
    }

    /// Parses statements each time instead of preparing them.
    pub(crate) fn unnamed_statements(mut self) -> Self {
        self.mode = StatementMode::Unnamed;
        self
    }

    /// The same for work that may take its time: ten times the limit on each answer.
    pub(crate) fn patient(&self) -> Self {
        Self { limit: self.limit * 10, ..self.clone() }
    }

    /// A connection of the pool.
    pub(crate) async fn connection(&self) -> Result<Link, Error> {
        let object = self.home.pool.get().await.map_err(|error| self.not_had(error))?;
        let is_new = Object::metrics(&object).recycle_count == 0;
        let link = Link::new(Arc::clone(&self.home), object, self.limit);
        if is_new && self.mode == StatementMode::Prepared {
            self.command(&link, SETTINGS).await?;
        }
        Ok(link)
    }

    /// Why there is no connection.
    fn not_had(&self, error: PoolError) -> Error {
        match error {
            PoolError::Backend(error) => self.home.database.refused(error),
            PoolError::Timeout(TimeoutType::Wait) => {
                let size = self.home.pool.status().max_size;
                Error::new(ErrorKind::Busy, format!("all {size} pooled connections are in use"))
                    .with_hint("raise the pool size, or run fewer handlers at once")
            }
            PoolError::Timeout(_) => self.home.database.silent(),
            other => Error::new(ErrorKind::Bug, "the connection pool failed").with_source(other),
        }
    }

    /// Runs a statement on a connection of the pool, as a transaction of its own.
    pub(crate) async fn query(
        &self,
        statement: &Statement,
        params: &[Param<'_>],
    ) -> Result<Vec<Row>, Error> {
        let connection = self.connection().await?;
        self.query_on(&connection, statement, params).await
    }

    /// Runs a statement on `client`.
    pub(crate) async fn query_on<C: Connection>(
        &self,
        client: &C,
        statement: &Statement,
        params: &[Param<'_>],
    ) -> Result<Vec<Row>, Error> {
        let ready = self.ready(client, statement).await?;
        self.run_ready(client, &ready, params).await
    }

    /// The statement as it can be run on `client` without a further question to the server.
    pub(crate) async fn ready<'a, C: Connection>(
        &self,
        client: &C,
        statement: &'a Statement,
    ) -> Result<Ready<'a>, Error> {
        Ok(match self.mode {
            StatementMode::Prepared => {
                let asked = client.prepare(&statement.text, statement.types);
                Ready::Prepared(client.answer(asked).await?)
            }
            StatementMode::Unnamed => Ready::Unnamed(statement),
        })
    }

    /// Runs a statement that is ready. It is sent when the future is first polled, so futures
    /// polled in order reach the server in order.
    pub(crate) async fn run_ready<C: Connection>(
        &self,
        client: &C,
        ready: &Ready<'_>,
        params: &[Param<'_>],
    ) -> Result<Vec<Row>, Error> {
        let asked = async {
            match ready {
                Ready::Prepared(prepared) => client.plain().query(prepared, params).await,
                Ready::Unnamed(statement) => {
                    debug_assert_eq!(params.len(), statement.types.len(), "of {}", statement.name);
                    let typed: Vec<(Param<'_>, Type)> =
                        params.iter().copied().zip(statement.types.iter().cloned()).collect();
                    client.plain().query_typed(&statement.text, &typed).await
                }
            }
        };
        client.answer(asked).await
    }

    /// Runs a command without parameters or rows. Sent when first polled.
    pub(crate) async fn command<C: Connection>(&self, client: &C, text: &str) -> Result<(), Error> {
        client.answer(client.plain().batch_execute(text)).await
    }
}

/// A statement on its way to a connection.
pub(crate) enum Ready<'a> {
    /// Prepared on that connection.
    Prepared(tokio_postgres::Statement),
    /// Sent with its text.
    Unnamed(&'a Statement),
}

impl From<tokio_postgres::Error> for Error {
    fn from(error: tokio_postgres::Error) -> Self {
        crate::TransactionError::from(error).into()
    }
}
