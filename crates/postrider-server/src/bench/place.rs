//! Where a bench runs: a database with the ceilings' tables and a schema of its own.
//!
//! How it fails: with what is missing. Invariant: nothing but the schemas `ceiling` and
//! `postrider_bench` is touched.

use std::time::Duration;

use postrider::{Database, Engine, EngineBuilder, EventType, Schema, migrate};
use postrider_embedded::{PrivateServer, ServerOptions};
use tokio_postgres::Client;

use super::BenchError;
use super::load::Script;

const SCHEMA: &str = "postrider_bench";

/// A place to measure in. Holds the private server, if there is one.
pub(crate) struct Place {
    pub(crate) database: Database,
    pub(crate) client: Client,
    pub(crate) schema: Schema,
    url: String,
    server: Option<PrivateServer>,
}

impl Place {
    /// Uses the given database or starts a private server, and makes the tables anew.
    pub(crate) async fn new(url: Option<&str>) -> Result<Self, BenchError> {
        let (server, url) = match url {
            Some(url) => (None, url.to_owned()),
            None => {
                let options = ServerOptions::new()
                    .setting("shared_buffers", "512MB")
                    .setting("max_wal_size", "4GB")
                    .setting("checkpoint_timeout", "15min");
                let server =
                    PrivateServer::start(options).await.map_err(BenchError::from_display)?;
                let url = server.url();
                (Some(server), url)
            }
        };
        let database = Database::new(&url)?.pool_size(16);
        let mut client = database.connect().await?;
        let schema = Schema::new(SCHEMA)?;
        client.batch_execute("set client_min_messages = error").await?;
        client.batch_execute("drop schema if exists postrider_bench cascade").await?;
        let ceiling = include_str!("../../bench/ceiling/schema.sql");
        Script::new(ceiling, "", &[]).run_once(&client).await?;
        client.batch_execute("reset search_path").await?;
        migrate::apply(&mut client, &schema).await?;
        Ok(Self { database, client, schema, url, server })
    }

    /// An engine on the bench's schema with its types declared.
    pub(crate) fn engine(&self) -> Result<EngineBuilder, BenchError> {
        Ok(Engine::builder(self.database.clone())
            .schema(self.schema.clone())
            .declare(EventType::new("order.placed")?)
            .declare(EventType::new("corpus.note.changed")?))
    }

    /// A script of ours.
    pub(crate) fn script(&self, text: &str, values: &[(&str, i64)]) -> Script {
        Script::new(text, &self.schema.quoted(), values)
    }

    /// The number that a statement answers with.
    pub(crate) async fn number(&self, text: &str) -> Result<f64, BenchError> {
        let text = text.replace("{schema}", &self.schema.quoted());
        Ok(self.client.query_one(&text, &[]).await?.try_get(0)?)
    }

    /// A connection of its own that calls `woken` for each notification.
    pub(crate) async fn listen(
        &self,
        woken: impl Fn() -> bool + Send + 'static,
    ) -> Result<(Client, tokio::task::JoinHandle<()>), BenchError> {
        let config: tokio_postgres::Config = self.url.parse()?;
        let (client, mut connection) = config.connect(tokio_postgres::NoTls).await?;
        let driver = tokio::spawn(async move {
            while let Some(Ok(message)) =
                std::future::poll_fn(|context| connection.poll_message(context)).await
            {
                let told = matches!(message, tokio_postgres::AsyncMessage::Notification(_));
                if told && !woken() {
                    break;
                }
            }
        });
        Ok((client, driver))
    }

    /// Waits until a question is answered with no.
    pub(crate) async fn until_zero(&self, text: &str, limit: Duration) -> Result<(), BenchError> {
        let text = text.replace("{schema}", &self.schema.quoted());
        let deadline = std::time::Instant::now() + limit;
        loop {
            let left: bool = self.client.query_one(&text, &[]).await?.try_get(0)?;
            if !left {
                return Ok(());
            }
            if std::time::Instant::now() > deadline {
                return Err(BenchError::new("the work was not done in time"));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Stops the private server and drops the schemas of a given one.
    pub(crate) async fn leave(self) -> Result<(), BenchError> {
        self.client.batch_execute("drop schema if exists postrider_bench, ceiling cascade").await?;
        if let Some(server) = self.server {
            server.stop().await.map_err(BenchError::from_display)?;
        }
        Ok(())
    }
}
