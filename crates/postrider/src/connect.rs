//! Connections to PostgreSQL: the pool for short statements, and single ones that live long.
//!
//! How it fails: [`Error`] that says whether the address, the credentials or the network is at
//! fault. Invariants: long-lived connections have short TCP keepalives and no idle or statement
//! timeouts; no attempt to connect is without an end; of several hosts the one that takes writes is
//! used; the password never appears in an error.

mod refusal;
mod ssl_mode;
#[cfg(feature = "tls")]
mod tls;

use std::time::Duration;

use deadpool::managed::QueueMode;
use deadpool_postgres::{Manager, ManagerConfig, Pool, RecyclingMethod, Runtime};
use tokio_postgres::config::{SslMode, TargetSessionAttrs};
use tokio_postgres::{CancelToken, Client, Config, GenericClient, NoTls, SimpleQueryMessage};

use self::ssl_mode::SslAsked;
use crate::{Error, ErrorKind};

/// How long a connection attempt may take: longer hides a dead host, shorter fails a busy one.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long to wait for a free connection of the pool before the pool counts as too small.
const POOL_WAIT: Duration = Duration::from_secs(30);
/// How long the answer to one statement may take unless told otherwise.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);
/// How long a request to call a statement off may take; nobody waits for it.
const CANCEL_LIMIT: Duration = Duration::from_secs(5);

/// A PostgreSQL database: where it is and how many connections Postrider may keep to it.
///
/// ```
/// let database = postrider::Database::new("postgres://app@localhost/shop")?.pool_size(12);
/// # Ok::<(), postrider::Error>(())
/// ```
#[derive(Clone)]
pub struct Database {
    config: Config,
    pool_size: usize,
    answer_limit: Duration,
    #[cfg(feature = "tls")]
    tls: tokio_postgres_rustls::MakeRustlsConnect,
}

impl std::fmt::Debug for Database {
    /// Says where it is, never the password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Database")
            .field("place", &self.place())
            .field("pool_size", &self.pool_size)
            .finish_non_exhaustive()
    }
}

impl Database {
    /// Reads a URL (`postgres://user:password@host:port/database?…`) or a string of keys and
    /// values as libpq takes it. `sslmode` and `sslrootcert` mean what they mean there: `prefer`,
    /// the default, and `require` encrypt without checking the certificate, `verify-full` checks
    /// it and the host's name, against `sslrootcert` or the authorities that browsers trust.
    ///
    /// Of several hosts, the one that takes writes is used, also after a failover: connections to a
    /// server that turned read-only are dropped.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] when it cannot be read, names a root certificate that cannot be
    /// read, or asks for TLS in a build without the feature `tls`.
    pub fn new(url: &str) -> Result<Self, Error> {
        let (url, asked) = SslAsked::take(url)?;
        let mut config: Config = url.parse().map_err(|error: tokio_postgres::Error| {
            let reason = std::error::Error::source(&error)
                .map_or_else(|| error.to_string(), ToString::to_string);
            let message = format!("the database URL cannot be read: {reason}");
            Error::new(ErrorKind::Configuration, message)
                .with_hint("it looks like postgres://user:password@host:5432/database")
        })?;
        if config.get_hosts().is_empty() {
            let message = "the database URL names no host";
            return Err(Error::new(ErrorKind::Configuration, message)
                .with_hint("it looks like postgres://user:password@host:5432/database"));
        }
        if !cfg!(feature = "tls") && config.get_ssl_mode() == SslMode::Require {
            let message = "the database URL asks for TLS, which this build cannot do";
            return Err(Error::new(ErrorKind::Configuration, message)
                .with_hint("build with the feature `tls`"));
        }
        if config.get_application_name().is_none() {
            config.application_name("postrider");
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_TIMEOUT);
        }
        if config.get_hosts().len() > 1
            && config.get_target_session_attrs() == TargetSessionAttrs::Any
        {
            config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        }
        config.keepalives_idle(Duration::from_secs(10));
        config.keepalives_interval(Duration::from_secs(5));
        config.keepalives_retries(3);
        config.tcp_user_timeout(Duration::from_secs(30));
        #[cfg(not(feature = "tls"))]
        let _ = asked;
        Ok(Self {
            config,
            pool_size: 8,
            answer_limit: ANSWER_LIMIT,
            #[cfg(feature = "tls")]
            tls: tls::connector(&asked)?,
        })
    }

    /// Sets how many pooled connections there may be, beside the two that listen and lock.
    /// Defaults to 8.
    #[must_use]
    pub fn pool_size(mut self, connections: usize) -> Self {
        self.pool_size = connections;
        self
    }

    /// Sets how long the server may take to answer one statement, at least 100 ms; housekeeping and
    /// administration get ten times as long. A connection that is silent for longer is dropped and
    /// what it asked for is tried again, so that a dead network or a stopped server holds no loop
    /// for good. Defaults to 30 s.
    #[must_use]
    pub fn answer_limit(mut self, limit: Duration) -> Self {
        self.answer_limit = limit.max(Duration::from_millis(100));
        self
    }

    /// How long the server may take to answer one statement.
    pub(crate) fn answer_limit_set(&self) -> Duration {
        self.answer_limit
    }

    /// What `asked` answers, or an error when the server is silent for too long.
    pub(crate) async fn in_time<T>(
        &self,
        asked: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        tokio::time::timeout(self.answer_limit, asked).await.unwrap_or_else(|_| Err(self.silent()))
    }

    /// How long an attempt to connect may take as a whole: each host has its turn.
    fn connect_limit(&self) -> Duration {
        let each = self.config.get_connect_timeout().copied().unwrap_or(CONNECT_TIMEOUT);
        each * u32::try_from(self.config.get_hosts().len().max(1)).unwrap_or(u32::MAX)
    }

    /// The same, with connections that say in `pg_stat_activity` what they are for.
    pub(crate) fn with_purpose(mut self, purpose: &str) -> Self {
        let name = self.application_name();
        self.config.application_name(format!("{name} {purpose}"));
        self
    }

    /// How its connections are named in `pg_stat_activity`.
    pub(crate) fn application_name(&self) -> String {
        self.config.get_application_name().unwrap_or_default().to_owned()
    }

    /// The port that the URL names.
    pub(crate) fn port(&self) -> u16 {
        self.config.get_ports().first().copied().unwrap_or(5432)
    }

    /// How many pooled connections there may be.
    pub(crate) fn pool_size_max(&self) -> usize {
        self.pool_size
    }

    /// Makes the pool. No connection is opened yet.
    pub(crate) fn pool(&self) -> Result<Pool, Error> {
        let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let manager = self.manager(recycling);
        Pool::builder(manager)
            .max_size(self.pool_size)
            // The one given back last first: its server process has its plans made and its caches
            // warm. In turns, a loop that needs one at a time would go round all of them.
            .queue_mode(QueueMode::Lifo)
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(POOL_WAIT))
            .create_timeout(Some(self.connect_limit()))
            .build()
            .map_err(|error| {
                Error::new(ErrorKind::Bug, "the connection pool cannot be built").with_source(error)
            })
    }

    #[cfg(feature = "tls")]
    fn manager(&self, recycling: ManagerConfig) -> Manager {
        match self.config.get_ssl_mode() {
            SslMode::Disable => Manager::from_config(self.config.clone(), NoTls, recycling),
            _ => Manager::from_config(self.config.clone(), self.tls.clone(), recycling),
        }
    }

    #[cfg(not(feature = "tls"))]
    fn manager(&self, recycling: ManagerConfig) -> Manager {
        Manager::from_config(self.config.clone(), NoTls, recycling)
    }

    /// Opens a connection of its own and drives it in the background until the client is dropped.
    ///
    /// # Errors
    /// [`ErrorKind::Unreachable`] when nobody answers, [`ErrorKind::Configuration`] when the
    /// server refuses the user, the password or the database.
    pub async fn connect(&self) -> Result<Client, Error> {
        let (client, driver) = self.connect_with(|_| ()).await?;
        tokio::spawn(driver);
        Ok(client)
    }

    /// Opens a connection and hands its notifications to `listener`; the caller drives the future,
    /// which ends when the connection does.
    pub(crate) async fn connect_with<F: FnMut(Notice) + Send + 'static>(
        &self,
        listener: F,
    ) -> Result<(Client, impl Future<Output = ()> + Send + use<F>), Error> {
        // An address may accept and then be silent.
        tokio::time::timeout(self.connect_limit(), self.connect_once(listener))
            .await
            .unwrap_or_else(|_| Err(self.silent()))
    }

    async fn connect_once<F: FnMut(Notice) + Send + 'static>(
        &self,
        listener: F,
    ) -> Result<(Client, impl Future<Output = ()> + Send + use<F>), Error> {
        #[cfg(feature = "tls")]
        if self.config.get_ssl_mode() != SslMode::Disable {
            let (client, connection) =
                self.config.connect(self.tls.clone()).await.map_err(|error| self.refused(error))?;
            return Ok((client, futures_util::future::Either::Left(drive(connection, listener))));
        }
        let (client, connection) =
            self.config.connect(NoTls).await.map_err(|error| self.refused(error))?;
        #[cfg(feature = "tls")]
        return Ok((client, futures_util::future::Either::Right(drive(connection, listener))));
        #[cfg(not(feature = "tls"))]
        Ok((client, drive(connection, listener)))
    }

    /// Asks the server to call off what a connection runs. Whether it was heard is not known.
    pub(crate) async fn cancel(&self, token: CancelToken) {
        let asked = async {
            #[cfg(feature = "tls")]
            if self.config.get_ssl_mode() != SslMode::Disable {
                return token.cancel_query(self.tls.clone()).await;
            }
            token.cancel_query(NoTls).await
        };
        match tokio::time::timeout(CANCEL_LIMIT, asked).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "a statement could not be called off"),
            Err(_) => tracing::debug!("a request to call a statement off was not heard"),
        }
    }

    /// Whether something between hands out another server process for each transaction, as a pooler
    /// in transaction mode does: then two connections that are open at once meet in one process, or
    /// `client` finds another one while the second is busy. Such a connection can neither listen
    /// nor keep locks or prepared statements.
    pub(crate) async fn is_pooled(&self, client: &Client) -> Result<bool, Error> {
        let process = include_str!("../sql/session/process.sql");
        let first = only_text(client, process).await?;
        let mut other = self.connect().await?;
        let busy = other.transaction().await?;
        if only_text(&busy, process).await? == first {
            return Ok(true);
        }
        // A pooler without another process to give makes it wait; the server itself never does.
        let again = tokio::time::timeout(self.answer_limit, only_text(client, process)).await;
        let again = again.unwrap_or(Ok(None))?;
        busy.rollback().await?;
        Ok(first != again)
    }

    /// Host, port and database without the password, for messages.
    pub(crate) fn place(&self) -> String {
        use tokio_postgres::config::Host;
        let host = match self.config.get_hosts().first() {
            Some(Host::Tcp(name)) => name.clone(),
            #[cfg(unix)]
            Some(Host::Unix(path)) => path.display().to_string(),
            None => "localhost".to_owned(),
        };
        let port = self.port();
        let database = self.config.get_dbname().unwrap_or("the user's database");
        format!("{host}:{port}/{database}")
    }
}

/// The text in the first column of the only row that simple statements return.
pub(crate) async fn only_text<C: GenericClient + Sync>(
    client: &C,
    sql: &str,
) -> Result<Option<String>, Error> {
    let messages = client.simple_query(sql).await?;
    Ok(messages.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    }))
}

/// What a listening connection tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Notice {
    pub(crate) payload: String,
}

/// Runs a connection to its end and passes notifications on.
async fn drive<S, T, F>(mut connection: tokio_postgres::Connection<S, T>, mut listener: F)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send,
    T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send,
    F: FnMut(Notice) + Send,
{
    loop {
        match std::future::poll_fn(|context| connection.poll_message(context)).await {
            Some(Ok(tokio_postgres::AsyncMessage::Notification(notification))) => {
                listener(Notice { payload: notification.payload().to_owned() });
            }
            Some(Ok(_)) => {}
            Some(Err(error)) => {
                tracing::debug!(%error, "a PostgreSQL connection ended");
                return;
            }
            None => return,
        }
    }
}
