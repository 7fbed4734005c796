//! What most tests need: a migrated database, events, and counts.

use std::time::Duration;

use postrider::{Database, Engine, EngineBuilder, EventType, NewEvent, Recorder, Schema, migrate};
use postrider_testkit::TestDatabase;
use tokio_postgres::Client;

/// How long a test waits for what should come within moments on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A migrated database of its own.
pub struct Fixture {
    pub db: TestDatabase,
    pub client: Client,
    pub recorder: Recorder,
}

impl Fixture {
    /// Makes one from a template that is migrated once.
    pub async fn new() -> Self {
        // The text of the schema is the key: another schema, another template.
        let key = format!("postrider {}", migrate::print(&Schema::default()));
        let db = TestDatabase::create_from_template(&key, async |url: String| {
            let database = Database::new(&url).unwrap();
            let mut client = database.connect().await.unwrap();
            migrate::apply(&mut client, &Schema::default()).await.unwrap();
        })
        .await;
        let client = db.client().await;
        Self { db, client, recorder: Recorder::default() }
    }

    /// Makes one on a server that the test may stop.
    pub async fn on(server: &postrider_embedded::PrivateServer) -> Self {
        let db = TestDatabase::create_on(&server.url()).await;
        let mut client = db.client().await;
        migrate::apply(&mut client, &Schema::default()).await.unwrap();
        Self { db, client, recorder: Recorder::default() }
    }

    /// Connects anew, after the server was away.
    pub async fn reconnect(&mut self) {
        self.client = self.db.client().await;
    }

    /// Declares types as internal ones.
    pub async fn declare(&self, types: &[&str]) {
        for name in types {
            let sql = "insert into postrider.event_type (type) values ($1) on conflict do nothing";
            self.client.execute(sql, &[name]).await.unwrap();
        }
    }

    /// A builder of an engine on this database that looks often.
    pub fn engine(&self) -> EngineBuilder {
        Engine::builder(self.database()).poll_interval(Duration::from_millis(100))
    }

    pub fn database(&self) -> Database {
        Database::new(&self.db.url()).unwrap().pool_size(16)
    }

    /// Records one event in a transaction of its own and returns its id.
    pub async fn record(&mut self, event_type: &str, subject: &str) -> uuid::Uuid {
        let event = NewEvent::new(event_type, subject).unwrap();
        self.recorder.record(&mut self.client, &event).await.unwrap()
    }

    /// The first column of the only row.
    pub async fn count(&self, sql: &str) -> i64 {
        self.client.query_one(sql, &[]).await.unwrap().get(0)
    }

    /// The texts in the first column of all rows.
    pub async fn texts(&self, sql: &str) -> Vec<String> {
        self.client.query(sql, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
    }
}

/// An internal type.
pub fn event_type(name: &str) -> EventType {
    EventType::new(name).unwrap()
}
