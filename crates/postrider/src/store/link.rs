//! A pooled connection that is lent out, and that goes back only when nothing is open on it.
//!
//! How it fails: a statement that is not answered in time is an error that is worth another try.
//! Invariants: no wait for the database is without an end; a connection that was silent, broke, or
//! leads to a server that takes no writes never goes back to the pool, nor does one whose user was
//! stopped while it waited for an answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use deadpool_postgres::{Object, Pool, Transaction};
use tokio_postgres::types::Type;
use tokio_postgres::{CancelToken, Client, GenericClient, IsolationLevel, Statement};

use crate::{Database, Error, ErrorKind};

/// The SQLSTATE of a write on a server that takes none, as after a failover.
const READ_ONLY: &str = "25006";

/// Why there is a connection in every link.
const WHOLE: &str = "a link has its connection until it is dropped";

/// The pool, and how to reach the database beside it.
pub(super) struct Home {
    pub(super) database: Database,
    pub(super) pool: Pool,
}

/// A connection of the pool.
pub(crate) struct Link {
    /// Gone only while the link is dropped.
    object: Option<Object>,
    line: Line,
}

/// What is known about the connection while it is lent out.
struct Line {
    home: Arc<Home>,
    /// Questions without an answer so far.
    open: AtomicUsize,
    /// Whether the connection must not be used again.
    is_broken: AtomicBool,
    limit: Duration,
}

impl Link {
    pub(super) fn new(home: Arc<Home>, object: Object, limit: Duration) -> Self {
        let line =
            Line { home, open: AtomicUsize::new(0), is_broken: AtomicBool::new(false), limit };
        Self { object: Some(object), line }
    }

    /// Begins a transaction whose every statement sees what is committed by then, whatever the
    /// database's default is: what waits for a lock must see what its holder did.
    pub(crate) async fn begin(&mut self) -> Result<LinkTransaction<'_>, Error> {
        let Self { object, line } = self;
        let object = object.as_mut().expect(WHOLE);
        let token = object.cancel_token();
        let level = IsolationLevel::ReadCommitted;
        let begun = object.build_transaction().isolation_level(level).start();
        let inner = line.answer(token, begun).await?;
        Ok(LinkTransaction { inner, line })
    }

    /// Lends the connection to code that is not ours. Unless [`Link::is_given_back`] is called, it
    /// does not go back to the pool: nobody knows what is open on it.
    pub(crate) fn lend(&mut self) -> &mut Client {
        self.line.open.fetch_add(1, Ordering::Relaxed);
        self.object.as_mut().expect(WHOLE)
    }

    /// Says that code that is not ours left nothing open on the connection.
    pub(crate) fn is_given_back(&self) {
        self.line.open.fetch_sub(1, Ordering::Relaxed);
    }

    fn object(&self) -> &Object {
        self.object.as_ref().expect(WHOLE)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        let is_open = *self.line.open.get_mut() > 0;
        if (is_open || *self.line.is_broken.get_mut())
            && let Some(object) = self.object.take()
        {
            drop(Object::take(object));
        }
    }
}

impl Line {
    /// Waits for the answer to a question, as long as one may take.
    async fn answer<T>(
        &self,
        token: CancelToken,
        asked: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, Error> {
        self.open.fetch_add(1, Ordering::Relaxed);
        let Ok(answer) = tokio::time::timeout(self.limit, asked).await else {
            self.give_up(token);
            return Err(silent(self.limit));
        };
        self.open.fetch_sub(1, Ordering::Relaxed);
        let answer = answer.map_err(Error::from);
        if let Err(error) = &answer {
            self.judge(error);
        }
        answer
    }

    /// Drops what must not be used again: a connection that broke, and every one to a server that
    /// takes no writes, so that the next ones find the server that does.
    fn judge(&self, error: &Error) {
        if error.is_of_the_server() {
            self.is_broken.store(true, Ordering::Relaxed);
        }
        if error.sqlstate() == Some(READ_ONLY) {
            self.home.forget_idle();
        }
    }

    /// The database was silent for too long: neither this connection nor those that wait beside it
    /// are worth a try. What still runs on the server is called off, if that can be heard there.
    fn give_up(&self, token: CancelToken) {
        self.is_broken.store(true, Ordering::Relaxed);
        self.home.forget_idle();
        let home = Arc::clone(&self.home);
        tokio::spawn(async move { home.database.cancel(token).await });
    }
}

impl Home {
    /// Drops the connections that nobody uses at the moment.
    fn forget_idle(&self) {
        self.pool.retain(|_, _| false);
    }
}

fn silent(limit: Duration) -> Error {
    let message = format!("the database did not answer within {} ms", limit.as_millis());
    Error::new(ErrorKind::Unreachable, message)
        .with_hint("is the server overloaded or stopped, or the way to it cut?")
}

/// A transaction on a connection of the pool. Dropped without a commit, it is rolled back.
pub(crate) struct LinkTransaction<'a> {
    inner: Transaction<'a>,
    line: &'a Line,
}

impl LinkTransaction<'_> {
    pub(crate) async fn commit(self) -> Result<(), Error> {
        let token = self.inner.cancel_token();
        self.line.answer(token, self.inner.commit()).await
    }
}

/// A pooled connection or a transaction on one: both keep prepared statements and a limit on the
/// wait for an answer.
pub(crate) trait Connection: Sync {
    /// The statement, prepared once for the connection.
    fn prepare(
        &self,
        text: &str,
        types: &[Type],
    ) -> impl Future<Output = Result<Statement, tokio_postgres::Error>> + Send;

    /// The driver's own view of it.
    fn plain(&self) -> &(impl GenericClient + Sync);

    /// Waits for the answer to a question, as long as one may take.
    fn answer<T: Send>(
        &self,
        asked: impl Future<Output = Result<T, tokio_postgres::Error>> + Send,
    ) -> impl Future<Output = Result<T, Error>> + Send;
}

impl Connection for Link {
    async fn prepare(
        &self,
        text: &str,
        types: &[Type],
    ) -> Result<Statement, tokio_postgres::Error> {
        self.object().prepare_typed_cached(text, types).await
    }

    fn plain(&self) -> &(impl GenericClient + Sync) {
        let client: &Client = self.object();
        client
    }

    async fn answer<T: Send>(
        &self,
        asked: impl Future<Output = Result<T, tokio_postgres::Error>> + Send,
    ) -> Result<T, Error> {
        self.line.answer(self.object().cancel_token(), asked).await
    }
}

impl Connection for LinkTransaction<'_> {
    async fn prepare(
        &self,
        text: &str,
        types: &[Type],
    ) -> Result<Statement, tokio_postgres::Error> {
        self.inner.prepare_typed_cached(text, types).await
    }

    fn plain(&self) -> &(impl GenericClient + Sync) {
        let transaction: &tokio_postgres::Transaction<'_> = &self.inner;
        transaction
    }

    async fn answer<T: Send>(
        &self,
        asked: impl Future<Output = Result<T, tokio_postgres::Error>> + Send,
    ) -> Result<T, Error> {
        self.line.answer(self.inner.cancel_token(), asked).await
    }
}
