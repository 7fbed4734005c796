//! The pooler.

use crate::text;
use postrider_testkit::{Pooler, TestDatabase};
use tokio_postgres::{Client, NoTls};

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

#[tokio::test]
async fn two_connections_share_one_server_process_and_break_at_a_restart() {
    let database = TestDatabase::create().await;
    let mut pooler = Pooler::start(&database.url(), 1, 0).await;
    let url = pooler.url_through(&database.url());
    let (one, other) = (connect(&url).await, connect(&url).await);
    let mut pids = Vec::new();
    for client in [&one, &other] {
        let rows = client.query_typed("select pg_backend_pid()", &[]).await.unwrap();
        pids.push(rows[0].get::<_, i32>(0));
    }
    assert_eq!(pids[0], pids[1]);
    pooler.restart().await;
    assert!(one.simple_query("").await.is_err());
    let again = connect(&url).await;
    assert_eq!(text(&again, "select current_database()::text").await, database.name());
}
