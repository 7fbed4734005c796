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
mod periodic;
mod relay;
mod routing;
mod sessions;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use deadpool_postgres::{Object, Pool, PoolError};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{GenericClient, Row};

pub(crate) use admin_doctor::{Backlog, Holder, NetRows, ServerLook, SessionLook};
pub(crate) use admin_jobs::FoundJob;
pub(crate) use bulk::Jobs;
pub(crate) use jobs::{Claimed, Ended, Found, PendingAgain, Terms};
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
    pool: Pool,
    pub(crate) schema: Schema,
    pub(crate) statements: Arc<Statements>,
    pub(crate) clock: Clock,
    mode: StatementMode,
}

/// One parameter of a statement.
pub(crate) type Param<'a> = &'a (dyn ToSql + Sync);

impl Store {
    pub(crate) fn new(database: &Database, schema: &Schema) -> Result<Self, Error> {
        Ok(Self {
            pool: database.pool()?,
            schema: schema.clone(),
            statements: Arc::new(Statements::new(schema)),
            clock: Clock::default(),
            mode: StatementMode::Prepared,
        })
    }

    /// Parses statements each time instead of preparing them.
    pub(crate) fn unnamed_statements(mut self) -> Self {
        self.mode = StatementMode::Unnamed;
        self
    }

    /// A connection of the pool.
    pub(crate) async fn connection(&self) -> Result<Object, Error> {
        self.pool.get().await.map_err(|error| match error {
            PoolError::Backend(error) => error.into(),
            PoolError::Timeout(_) => {
                let size = self.pool.status().max_size;
                Error::new(ErrorKind::Busy, format!("all {size} pooled connections are in use"))
                    .with_hint("raise the pool size, or run fewer handlers at once")
            }
            other => Error::new(ErrorKind::Bug, "the connection pool failed").with_source(other),
        })
    }

    /// Runs a statement on a connection of the pool, as a transaction of its own.
    pub(crate) async fn query(
        &self,
        statement: &Statement,
        params: &[Param<'_>],
    ) -> Result<Vec<Row>, Error> {
        let connection = self.connection().await?;
        let result = self.query_on(&connection, statement, params).await;
        put_back(connection, result.as_ref().err());
        result
    }

    /// Runs a statement on `client`.
    pub(crate) async fn query_on<C: Connection>(
        &self,
        client: &C,
        statement: &Statement,
        params: &[Param<'_>],
    ) -> Result<Vec<Row>, Error> {
        debug_assert_eq!(params.len(), statement.types.len(), "parameters of {}", statement.name);
        match self.mode {
            StatementMode::Prepared => {
                let prepared = client.prepare(&statement.text, statement.types).await?;
                Ok(client.plain().query(&prepared, params).await?)
            }
            StatementMode::Unnamed => {
                let typed: Vec<(Param<'_>, Type)> =
                    params.iter().copied().zip(statement.types.iter().cloned()).collect();
                Ok(client.plain().query_typed(&statement.text, &typed).await?)
            }
        }
    }
}

/// Gives a connection back to the pool, or drops it when it broke: the pool itself may learn of
/// that too late and hand it out once more.
pub(crate) fn put_back(connection: Object, error: Option<&Error>) {
    if error.is_some_and(|error| error.kind() == ErrorKind::Unreachable) {
        drop(Object::take(connection));
    }
}

/// Begins a transaction whose every statement sees what is committed by then, whatever the
/// database's default is: what waits for a lock must see what its holder did.
pub(crate) async fn read_committed(
    connection: &mut Object,
) -> Result<deadpool_postgres::Transaction<'_>, Error> {
    let level = tokio_postgres::IsolationLevel::ReadCommitted;
    Ok(connection.build_transaction().isolation_level(level).start().await?)
}

/// A pooled connection or a transaction on one: both keep prepared statements.
pub(crate) trait Connection: Sync {
    /// The statement, prepared once for the connection.
    fn prepare(
        &self,
        text: &str,
        types: &[Type],
    ) -> impl Future<Output = Result<tokio_postgres::Statement, tokio_postgres::Error>> + Send;

    /// The driver's own view of it.
    fn plain(&self) -> &(impl GenericClient + Sync);
}

impl Connection for Object {
    async fn prepare(
        &self,
        text: &str,
        types: &[Type],
    ) -> Result<tokio_postgres::Statement, tokio_postgres::Error> {
        self.prepare_typed_cached(text, types).await
    }

    fn plain(&self) -> &(impl GenericClient + Sync) {
        let client: &tokio_postgres::Client = self;
        client
    }
}

impl Connection for deadpool_postgres::Transaction<'_> {
    async fn prepare(
        &self,
        text: &str,
        types: &[Type],
    ) -> Result<tokio_postgres::Statement, tokio_postgres::Error> {
        self.prepare_typed_cached(text, types).await
    }

    fn plain(&self) -> &(impl GenericClient + Sync) {
        let transaction: &tokio_postgres::Transaction<'_> = self;
        transaction
    }
}

impl From<tokio_postgres::Error> for Error {
    fn from(error: tokio_postgres::Error) -> Self {
        crate::TransactionError::from(error).into()
    }
}
