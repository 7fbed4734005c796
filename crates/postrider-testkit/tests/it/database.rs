//! Databases for tests.

use crate::text;
use postrider_testkit::{TestDatabase, TestServer};
use std::sync::atomic::{AtomicUsize, Ordering};

#[tokio::test]
async fn each_test_has_a_database_of_its_own() {
    let (one, two) = tokio::join!(TestDatabase::create(), TestDatabase::create());
    assert_ne!(one.name(), two.name());
    let client = one.client().await;
    assert_eq!(text(&client, "select current_database()::text").await, one.name());
    client.batch_execute("create table t ()").await.unwrap();
    two.client().await.batch_execute("create table t ()").await.unwrap();
}

#[tokio::test]
async fn a_dropped_database_is_gone_even_with_an_open_session() {
    let database = TestDatabase::create().await;
    let (url, client) = (database.url(), database.client().await);
    database.drop().await;
    assert!(client.batch_execute("select 1").await.is_err());
    assert!(tokio_postgres::connect(&url, tokio_postgres::NoTls).await.is_err());
}

/// A key that no earlier run has used on a server that lives on.
fn new_key(name: &str) -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    format!("{name} {} {}", std::process::id(), now.as_nanos())
}

#[tokio::test]
async fn a_template_is_prepared_once_and_copied_for_each_test() {
    let key = new_key("once");
    let prepared = AtomicUsize::new(0);
    let prepare = async |url: String| {
        prepared.fetch_add(1, Ordering::SeqCst);
        let (client, connection) =
            tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        client.batch_execute("create table t as select 'prepared' as word").await.unwrap();
        // The session stays open for ever, which must not matter.
        std::mem::forget(client);
    };
    let (one, two, three) = tokio::join!(
        TestDatabase::create_from_template(&key, prepare),
        TestDatabase::create_from_template(&key, prepare),
        TestDatabase::create_from_template(&key, prepare),
    );
    assert_eq!(prepared.load(Ordering::SeqCst), 1);
    for database in [&one, &two, &three] {
        assert_eq!(text(&database.client().await, "select word from t").await, "prepared");
    }
}

#[tokio::test]
async fn a_preparation_that_failed_is_tried_again() {
    let key = new_key("again");
    let failing = tokio::spawn({
        let key = key.clone();
        async move {
            TestDatabase::create_from_template(&key, async |_| panic!("this is on purpose")).await
        }
    });
    assert!(failing.await.unwrap_err().is_panic());
    let database = TestDatabase::create_from_template(&key, async |_| ()).await;
    database.client().await.batch_execute("select 1").await.unwrap();
}

#[tokio::test]
async fn a_server_of_ones_own_can_crash_without_harm_to_others() {
    let mut own = TestServer::own().await;
    assert_ne!(own.url(), TestServer::shared().await);
    own.kill_hard().await;
    TestDatabase::create().await.client().await.batch_execute("select 1").await.unwrap();
}
