//! How workers learn of an enqueued job: a ring while a relay sleeps, silence while it is awake.

use std::time::Duration;

use postrider::{Awaited, Job, NewJob};
use serde_json::Value;

use crate::enqueue::kind;
use crate::fixture::{Fixture, PATIENCE};

const LONG: Duration = Duration::from_secs(3600);
/// The bell is held: the relay on duty sleeps.
const ASLEEP: &str = "select count(*) from pg_locks where locktype = 'advisory' and granted
    and mode = 'ExclusiveLock' and database = (
      select oid from pg_database where datname = current_database())
    and (classid::bigint << 32) | objid::bigint = (select bell from postrider.wake_keys())";

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_in_another_process_than_the_relay_is_woken_and_need_not_look() {
    let mut fixture = Fixture::new().await;
    let relay = fixture.engine().poll_interval(LONG).start().await.unwrap();
    let handled = async |_: Job<Value>| ();
    let worker = fixture.engine().without_relay().poll_interval(LONG);
    let worker = worker.handle(kind("k"), handled).start().await.unwrap();
    for round in 0..5 {
        fixture.wait_count(ASLEEP, 1).await;
        let id = fixture.enqueue(&NewJob::new("k").unwrap()).await.job_id();
        let waited = worker.await_job(id, PATIENCE).await.unwrap();
        assert!(matches!(waited, Awaited::Done(_)), "round {round}: nobody woke the worker");
    }
    worker.shutdown().await;
    relay.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_was_enqueued_in_silence_is_told_when_the_relay_goes_to_sleep() {
    let fixture = Fixture::new().await;
    let handled = async |_: Job<Value>| ();
    let worker = fixture.engine().without_relay().poll_interval(LONG);
    let worker = worker.handle(kind("k"), handled).start().await.unwrap();
    // No relay has the bell, so nothing rings.
    let mut writer = fixture.db.client().await;
    let mut silent = writer.transaction().await.unwrap();
    let job = NewJob::new("k").unwrap();
    let id = fixture.recorder.enqueue(&mut silent, &job).await.unwrap().job_id();
    silent.commit().await.unwrap();
    let relay = fixture.engine().poll_interval(LONG).start().await.unwrap();
    let waited = worker.await_job(id, PATIENCE).await.unwrap();
    assert!(matches!(waited, Awaited::Done(_)), "nobody told the worker");
    relay.shutdown().await;
    worker.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn enqueueing_rings_only_while_a_relay_sleeps() {
    let mut fixture = Fixture::new().await;
    fixture.kinds(&["k"]).await;
    let (client, mut connection) =
        tokio_postgres::connect(&fixture.db.url(), tokio_postgres::NoTls).await.unwrap();
    let (heard, mut words) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(Ok(message)) =
            std::future::poll_fn(|context| connection.poll_message(context)).await
        {
            if let tokio_postgres::AsyncMessage::Notification(notice) = message {
                let _ = heard.send(notice.payload().to_owned());
            }
        }
    });
    let channel = fixture.texts("select channel from postrider.wake_keys()").await.remove(0);
    client.batch_execute(&format!("listen {channel}")).await.unwrap();
    let job = NewJob::new("k").unwrap();
    fixture.enqueue(&job).await;
    let bell = "select pg_advisory_lock(bell) from postrider.wake_keys()";
    let sleeper = fixture.db.client().await;
    sleeper.batch_execute(bell).await.unwrap();
    fixture.enqueue(&job.clone().delay(LONG)).await;
    fixture.enqueue(&job).await;
    client.batch_execute(&format!("notify {channel}, 'end'")).await.unwrap();
    let mut found = Vec::new();
    while found.last().is_none_or(|word| word != "end") {
        found.push(words.recv().await.unwrap());
    }
    assert_eq!(found, ["enqueued", "end"]);
}
