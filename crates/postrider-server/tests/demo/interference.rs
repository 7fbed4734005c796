//! What others do to a demo, and what it may not do to them.

use std::process::Stdio;

use postrider_testkit::{TestDatabase, wait_until};
use tokio::process::{Child, Command};
use tokio_postgres::Client;

use crate::stage::{PATIENCE, all_gone, count, demo, end_of, ended, schemas};

/// A demo that would run for long, when its workers are at work.
async fn running(database: &TestDatabase, client: &Client) -> Child {
    let child = demo(database, "--events 100000 --rate 50").spawn().unwrap();
    wait_until("two workers are at work and an event is handled", PATIENCE, async || {
        if schemas(client).await < 2 {
            return Err("there are no schemas yet".into());
        }
        let sql = "select case when to_regclass('postrider_demo_shop.run') is null
                          then 0 else 1 end::bigint";
        if count(client, sql).await == 0 {
            return Err("there are no tables yet".into());
        }
        match count(client, "select count(*) from postrider_demo_shop.audit").await {
            0 => Err("nothing is handled yet".into()),
            _ => Ok(()),
        }
    })
    .await;
    child
}

async fn send(signal: &str, pid: &str) {
    assert!(Command::new("kill").args([signal, pid]).status().await.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_of_somebody_else_is_refused_and_left_as_it_is() {
    for name in ["postrider_demo", "postrider_demo_shop"] {
        let database = TestDatabase::create().await;
        let client = database.client().await;
        let theirs = format!("create schema {name}; create table {name}.t as select 1 as x");
        client.batch_execute(&theirs).await.unwrap();
        let ended = ended(&database, "--events 10 --json").await;
        assert_eq!(ended.code(), Some(2), "{ended:#?}");
        assert!(ended.errors.contains(&format!("the schema `{name}` exists")), "{ended:#?}");
        assert!(ended.errors.contains("not made by the demo"), "{ended:#?}");
        assert_eq!(count(&client, &format!("select count(*) from {name}.t")).await, 1);
        assert_eq!(schemas(&client).await, 1);
        database.drop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_demo_in_the_same_database_is_refused_and_an_interrupt_cleans_up() {
    let database = TestDatabase::create().await;
    let client = database.client().await;
    let first = running(&database, &client).await;
    let second = ended(&database, "--events 10").await;
    assert_eq!(second.code(), Some(2), "{second:#?}");
    assert!(second.errors.contains("another `postrider demo` is running"), "{second:#?}");
    send("-INT", &first.id().unwrap().to_string()).await;
    let first = end_of(first).await;
    assert_eq!(first.code(), Some(1), "{first:#?}");
    assert!(first.errors.contains("interrupted"), "{first:#?}");
    assert_eq!(schemas(&client).await, 0);
    all_gone(&client).await;
    database.drop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_end_when_the_demo_is_killed_and_the_next_demo_takes_its_schemas_over() {
    let database = TestDatabase::create().await;
    let client = database.client().await;
    let mut child = running(&database, &client).await;
    child.kill().await.unwrap();
    all_gone(&client).await;
    assert_eq!(schemas(&client).await, 2);
    let next = ended(&database, "--events 20 --json").await;
    assert_eq!(next.code(), Some(0), "{next:#?}");
    assert!(next.errors.contains("Removing what an earlier run"), "{next:#?}");
    assert_eq!(next.json()["recorded"], 20);
    assert_eq!(schemas(&client).await, 0);
    database.drop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_somebody_else_kills_is_reported_and_replaced() {
    let database = TestDatabase::create().await;
    let client = database.client().await;
    let mut child = running(&database, &client).await;
    let mut errors = child.stderr.take().unwrap();
    let told = tokio::spawn(async move {
        let mut text = String::new();
        let mut bytes = [0_u8; 4096];
        while !text.contains("Worker 1 is back") {
            let read = tokio::io::AsyncReadExt::read(&mut errors, &mut bytes).await.unwrap();
            assert!(read > 0, "the demo ended: {text}");
            text.push_str(&String::from_utf8_lossy(&bytes[..read]));
            if let Some((_, rest)) = text.split_once("Worker 1 is ready (pid ")
                && !text.contains("ended unexpectedly")
                && let Some((pid, _)) = rest.split_once(')')
            {
                // Once more would do no harm: the process is gone.
                let _ =
                    Command::new("kill").args(["-KILL", pid]).stderr(Stdio::null()).status().await;
            }
        }
        text
    });
    let text = tokio::time::timeout(PATIENCE, told).await.expect("it is replaced in time").unwrap();
    assert!(text.contains("ended unexpectedly (signal 9)"), "{text}");
    send("-TERM", &child.id().unwrap().to_string()).await;
    child.wait().await.unwrap();
    assert_eq!(schemas(&client).await, 0);
    database.drop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_does_not_answer_and_a_url_that_is_none_have_exit_codes_of_their_own() {
    for (url, code) in [("postgres://u@127.0.0.1:1/d", 3), ("postgres://", 2), ("nonsense", 2)] {
        let program = env!("CARGO_BIN_EXE_postrider");
        let output = Command::new(program)
            .args(["demo", "--database-url", url])
            .env_remove("DATABASE_URL")
            .output()
            .await
            .unwrap();
        assert_eq!(output.status.code(), Some(code), "{url}: {output:?}");
        assert!(!output.stderr.is_empty());
    }
}
