//! A fresh database for one test.

use crate::server::{TestServer, chain};
use crate::{template, url};
use tokio_postgres::{Client, NoTls};

/// A fresh database for one test, on the server of [`TestServer::shared`].
///
/// Dropping the value leaves the database in place: dropping cannot wait, and a private server
/// takes its databases along when it ends. On a server that lives on, call [`Self::drop`]; what
/// failed tests leave behind is recognised by its name, `t_` and 16 hexadecimal digits.
#[derive(Debug)]
pub struct TestDatabase {
    /// Of the database for maintenance.
    server_url: String,
    name: String,
}

impl TestDatabase {
    /// Creates an empty database.
    ///
    /// # Panics
    ///
    /// When there is no server, or it does not let us create a database.
    pub async fn create() -> Self {
        Self::create_with(TestServer::shared().await, "").await
    }

    /// Creates an empty database on a server of one's own, given by the URL of any database on it.
    ///
    /// # Panics
    ///
    /// When the server cannot be reached, or does not let us create a database.
    pub async fn create_on(server_url: &str) -> Self {
        Self::create_with(server_url.to_owned(), "").await
    }

    /// Creates a copy of a template database, which is much faster than preparing each anew.
    ///
    /// The first call with a `key`, over all processes which use the server, makes the template: it
    /// creates a database and runs `prepare` with its URL. Others wait for it. `prepare` must be
    /// done with the database when it returns; sessions which it leaves open are ended. If it
    /// panics, the next call tries again.
    ///
    /// On a server that lives on, the template lives on, too. Put into the key whatever the content
    /// depends on, such as a digest of the migrations.
    ///
    /// # Panics
    ///
    /// When there is no server, or it does not let us create a database.
    ///
    /// ```no_run
    /// # async fn example() {
    /// use postrider_testkit::TestDatabase;
    ///
    /// let database = TestDatabase::create_from_template("shop, version 3", async |url: String| {
    ///     let (client, connection) =
    ///         tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    ///     tokio::spawn(connection);
    ///     client.batch_execute("create table orders (id bigint)").await.unwrap();
    /// })
    /// .await;
    /// # }
    /// ```
    pub async fn create_from_template<F>(key: &str, prepare: F) -> Self
    where
        F: AsyncFnOnce(String),
    {
        let server_url = TestServer::shared().await;
        let template = template::ensure(&server_url, key, prepare).await;
        Self::create_with(server_url, &format!(" template {template}")).await
    }

    async fn create_with(server_url: String, options: &str) -> Self {
        let name = format!("t_{}", random_word());
        let maintenance = connect(&server_url).await;
        execute(&maintenance, &format!("create database {name}{options}")).await;
        Self { server_url, name }
    }

    /// The URL of the database, with all rights on it.
    pub fn url(&self) -> String {
        url::with_database(&self.server_url, &self.name)
    }

    /// The name of the database.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A new connection to the database. A task that is spawned on the current runtime serves it
    /// until the client is dropped.
    ///
    /// # Panics
    ///
    /// When the server cannot be reached, for example because the test has stopped it.
    pub async fn client(&self) -> Client {
        connect(&self.url()).await
    }

    /// Drops the database, ending whatever sessions are open in it.
    ///
    /// # Panics
    ///
    /// When the server cannot be reached.
    pub async fn drop(self) {
        let maintenance = connect(&self.server_url).await;
        let name = &self.name;
        execute(&maintenance, &format!("drop database if exists {name} with (force)")).await;
    }
}

/// Connects, and serves the connection in a task.
pub(crate) async fn connect(url: &str) -> Client {
    match tokio_postgres::connect(url, NoTls).await {
        Ok((client, connection)) => {
            tokio::spawn(connection);
            client
        }
        // The URL holds a password, which has no place in the log of a build.
        Err(error) => {
            panic!("cannot connect to the database at {}: {}", url::address_of(url), chain(&error))
        }
    }
}

/// Executes statements which must succeed.
pub(crate) async fn execute(client: &Client, statements: &str) {
    if let Err(error) = client.batch_execute(statements).await {
        panic!("the test server refuses `{statements}`: {}", chain(&error));
    }
}

pub(crate) fn random_word() -> String {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    format!("{:016x}", u64::from_ne_bytes(bytes))
}
