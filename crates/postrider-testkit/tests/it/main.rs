//! The testkit on a real PostgreSQL server.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test, like the tests")]

mod database;
mod pooler;
mod proxy;

use tokio_postgres::Client;

/// The answer to a query for one text.
async fn text(client: &Client, query: &str) -> String {
    client.query_one(query, &[]).await.unwrap().get(0)
}
