//! The line between a program and its database.

use crate::text;
use postrider_testkit::{Proxy, TestDatabase, wait_until};
use std::time::Duration;
use tokio_postgres::{Client, NoTls};

/// Long enough that an answer would have arrived on any machine that is not broken, and short
/// enough to wait for in vain.
const SILENCE: Duration = Duration::from_millis(300);

struct Line {
    database: TestDatabase,
    proxy: Proxy,
}

impl Line {
    async fn new() -> Self {
        let database = TestDatabase::create().await;
        let proxy = Proxy::to_database(&database.url()).await;
        Self { database, proxy }
    }

    async fn connect(&self) -> Result<Client, tokio_postgres::Error> {
        let url = self.proxy.url_through(&self.database.url());
        let (client, connection) = tokio_postgres::connect(&url, NoTls).await?;
        tokio::spawn(connection);
        Ok(client)
    }
}

#[tokio::test]
async fn what_goes_through_the_line_is_unchanged() {
    let line = Line::new().await;
    let client = line.connect().await.unwrap();
    // More than fits into the buffers on the way.
    let long = text(&client, "select repeat('0123456789', 1000000)").await;
    assert_eq!(long, "0123456789".repeat(1_000_000));
}

#[tokio::test]
async fn a_cut_line_resets_sessions_and_refuses_new_ones_until_it_is_restored() {
    let line = Line::new().await;
    let client = line.connect().await.unwrap();
    line.proxy.cut();
    assert!(client.batch_execute("select 1").await.is_err());
    assert!(line.connect().await.is_err());
    line.proxy.restore();
    line.connect().await.unwrap().batch_execute("select 1").await.unwrap();
}

#[tokio::test]
async fn a_cut_is_noticed_even_if_the_line_is_restored_at_once() {
    let line = Line::new().await;
    let client = line.connect().await.unwrap();
    line.proxy.cut();
    line.proxy.restore();
    wait_until("the session notices", Duration::from_secs(5), async || {
        if client.is_closed() { Ok(()) } else { Err("it is still open".to_owned()) }
    })
    .await;
}

#[tokio::test]
async fn the_server_side_of_a_cut_line_ends_too() {
    let line = Line::new().await;
    let client = line.connect().await.unwrap();
    let pid: i32 = client.query_one("select pg_backend_pid()", &[]).await.unwrap().get(0);
    line.proxy.cut();
    let watcher = line.database.client().await;
    wait_until("the server has ended the session", Duration::from_secs(5), async || {
        let query = "select 1 from pg_stat_activity where pid = $1";
        match watcher.query_opt(query, &[&pid]).await.unwrap() {
            None => Ok(()),
            Some(_) => Err(format!("session {pid} is still there")),
        }
    })
    .await;
}

#[tokio::test]
async fn a_silent_line_holds_everything_back_and_loses_nothing() {
    let line = Line::new().await;
    let client = line.connect().await.unwrap();
    line.proxy.blackhole();
    let mut answer = std::pin::pin!(text(&client, "select 'late'::text"));
    assert!(tokio::time::timeout(SILENCE, &mut answer).await.is_err());
    assert!(tokio::time::timeout(SILENCE, line.connect()).await.is_err());
    assert!(!client.is_closed());
    line.proxy.restore();
    assert_eq!(answer.await, "late");
}

#[tokio::test]
async fn a_silent_line_can_still_be_cut() {
    let line = Line::new().await;
    let client = line.connect().await.unwrap();
    line.proxy.blackhole();
    assert!(tokio::time::timeout(SILENCE, client.batch_execute("select 1")).await.is_err());
    line.proxy.cut();
    assert!(client.batch_execute("select 1").await.is_err());
}

#[tokio::test]
async fn a_slow_line_holds_back_each_question_and_each_answer() {
    let line = Line::new().await;
    let client = line.connect().await.unwrap();
    let delay = Duration::from_millis(50);
    line.proxy.slow(delay);
    let asked = std::time::Instant::now();
    client.batch_execute("select 1").await.unwrap();
    assert!(asked.elapsed() >= delay * 2);
    line.proxy.slow(Duration::ZERO);
    client.batch_execute("select 1").await.unwrap();
}

#[tokio::test]
async fn dropping_the_proxy_resets_its_sessions() {
    let line = Line::new().await;
    let client = line.connect().await.unwrap();
    drop(line.proxy);
    assert!(client.batch_execute("select 1").await.is_err());
}
