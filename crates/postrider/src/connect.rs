//! Connections to PostgreSQL: the pool for short statements, and single ones that live long.
//!
//! How it fails: [`Error`] that says whether the address, the credentials or the network is at
//! fault. Invariants: long-lived connections have short TCP keepalives and no idle or statement
//! timeouts; the password never appears in an error.

mod ssl_mode;
#[cfg(feature = "tls")]
mod tls;

use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, Pool, RecyclingMethod, Runtime};
use tokio_postgres::config::SslMode;
use tokio_postgres::{Client, Config, GenericClient, NoTls, SimpleQueryMessage};

use self::ssl_mode::SslAsked;
use crate::{Error, ErrorKind};

/// How long a connection attempt may take: longer hides a dead host, shorter fails a busy one.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long to wait for a free connection of the pool before the pool counts as too small.
const POOL_WAIT: Duration = Duration::from_secs(30);

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
        config.keepalives_idle(Duration::from_secs(10));
        config.keepalives_interval(Duration::from_secs(5));
        config.keepalives_retries(3);
        config.tcp_user_timeout(Duration::from_secs(30));
        #[cfg(not(feature = "tls"))]
        let _ = asked;
        Ok(Self {
            config,
            pool_size: 8,
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
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(POOL_WAIT))
            .create_timeout(Some(CONNECT_TIMEOUT))
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

    /// Says which part of the address is at fault.
    fn refused(&self, error: tokio_postgres::Error) -> Error {
        let place = self.place();
        match error.as_db_error() {
            Some(report) => {
                let message =
                    format!("PostgreSQL at {place} refused the connection: {}", report.message());
                let hint = match report.code().code() {
                    "3D000" => "create the database, or name another in the URL",
                    "28P01" | "28000" => "check the user and the password in the URL",
                    "53300" => "raise max_connections, or lower the pool sizes",
                    _ => "see the server's log",
                };
                Error::from_report(crate::error::Report {
                    refused: true,
                    sqlstate: Some(report.code().code().to_owned()),
                    message,
                    hint: Some(hint.to_owned()),
                    column: None,
                    source: Some(error.into()),
                })
            }
            None => {
                let reason = std::error::Error::source(&error)
                    .map_or_else(|| error.to_string(), ToString::to_string);
                if error.to_string().contains("TLS") {
                    let message = format!("TLS with PostgreSQL at {place} failed: {reason}");
                    return Error::new(ErrorKind::Configuration, message)
                        .with_hint("name its authority with sslrootcert, or choose another sslmode")
                        .with_source(error);
                }
                Error::new(
                    ErrorKind::Unreachable,
                    format!("no PostgreSQL answers at {place}: {reason}"),
                )
                .with_hint("is the server running, and is the URL right?")
                .with_source(error)
            }
        }
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
