//! B13: a pooler in transaction mode, which hands out another server connection each time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use postrider::{Database, Engine, HandlerError, NewEvent, Recorder, Uuid};
use postrider_testkit::Pooler;

use crate::fixture::Fixture;
use crate::health::{wait_nothing_left, wait_well};
use crate::support::{Seen, eager};

/// Long enough that nothing in these tests is found by looking without being woken.
const NEVER: Duration = Duration::from_secs(3600);

/// Records `count` events, each until it is committed; its id makes repeating harmless.
async fn record_through(url: String, task: usize, count: usize) {
    let (database, recorder) = (Database::new(&url).unwrap(), Recorder::default());
    let mut client = None;
    for n in 0..count {
        let event = NewEvent::new("a.b", format!("x{task}.{n}")).unwrap().id(Uuid::new_v4());
        loop {
            let mut connected = match client.take() {
                Some(client) => client,
                None => match database.connect().await {
                    Ok(client) => client,
                    Err(_) => continue,
                },
            };
            match recorder.record(&mut connected, &event).await {
                Ok(_) => {
                    client = Some(connected);
                    break;
                }
                Err(error) => assert!(error.is_transient(), "{error:?}"),
            }
        }
    }
}

async fn everything_through_the_pooler(prepared_statements: u16) {
    let fixture = Fixture::new().await;
    fixture.declare(&["a.b"]).await;
    let mut pooler = Pooler::start(&fixture.db.url(), 2, prepared_statements).await;
    let url = pooler.url_through(&fixture.db.url());
    let (seen, failed) = (Seen::default(), Arc::new(AtomicUsize::new(0)));
    let count = Arc::clone(&failed);
    let handler = seen.then(move |delivery| {
        let first = delivery.attempt == 1;
        count.fetch_add(usize::from(first), Ordering::Relaxed);
        std::future::ready(if first { Err(HandlerError::retry("once more")) } else { Ok(()) })
    });
    let engine = Engine::builder(Database::new(&url).unwrap().pool_size(16))
        .poll_only()
        .poll_interval(Duration::from_millis(50))
        .subscribe(eager("s", &["a.b"], 50), handler)
        .start()
        .await
        .unwrap();
    let writers: Vec<_> =
        (0..16).map(|task| tokio::spawn(record_through(url.clone(), task, 25))).collect();
    seen.wait_for(20).await;
    pooler.restart().await;
    for writer in writers {
        writer.await.unwrap();
    }
    wait_nothing_left(&fixture).await;
    engine.maintain().await.unwrap();
    wait_well(&engine).await;
    engine.shutdown().await;
    let done =
        "select count(distinct event_seq) from postrider.job_history where state = 'completed'";
    assert_eq!(fixture.count(done).await, 400);
    assert!(failed.load(Ordering::Relaxed) >= 400);
    assert_eq!(fixture.count("select count(*) from postrider.fanout_failure").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn b13_everything_works_through_a_pooler_that_keeps_no_prepared_statements() {
    everything_through_the_pooler(0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b13_everything_works_through_a_pooler_that_keeps_prepared_statements_if_it_can() {
    everything_through_the_pooler(100).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b13_with_a_direct_way_beside_the_pooler_an_engine_is_woken() {
    let mut fixture = Fixture::new().await;
    fixture.declare(&["a.b"]).await;
    let pooler = Pooler::start(&fixture.db.url(), 2, 0).await;
    let database = Database::new(&pooler.url_through(&fixture.db.url())).unwrap().pool_size(16);
    let seen = Seen::default();
    let engine = Engine::builder(database)
        .session_database(fixture.database())
        .poll_interval(NEVER)
        .subscribe(eager("s", &["a.b"], 3), seen.handler())
        .start()
        .await
        .unwrap();
    let asleep = "select count(*) from pg_locks l, postrider.wake_keys() k
        where l.locktype = 'advisory' and l.granted and l.objsubid = 1 and l.mode = 'ExclusiveLock'
          and l.database = (select oid from pg_database where datname = current_database())
          and (l.classid::bigint << 32) | l.objid::bigint = k.bell";
    for n in 1..=3 {
        fixture.wait_count(asleep, 1).await;
        fixture.record("a.b", &format!("x{n}")).await;
        seen.wait_for(n).await;
    }
    engine.shutdown().await;
    assert_eq!(seen.subjects("s"), ["x1", "x2", "x3"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn b13_an_engine_that_was_not_told_of_the_pooler_polls_and_leaves_no_lock_behind() {
    let mut fixture = Fixture::new().await;
    fixture.declare(&["a.b"]).await;
    let pooler = Pooler::start(&fixture.db.url(), 2, 0).await;
    let database = Database::new(&pooler.url_through(&fixture.db.url())).unwrap().pool_size(16);
    let seen = Seen::default();
    let engine = Engine::builder(database)
        .poll_interval(Duration::from_millis(50))
        .subscribe(eager("s", &["a.b"], 3), seen.handler())
        .start()
        .await
        .unwrap();
    fixture.record("a.b", "x").await;
    seen.wait_for(1).await;
    wait_nothing_left(&fixture).await;
    engine.shutdown().await;
    let left = "select count(*) from pg_locks where locktype = 'advisory'
        and database = (select oid from pg_database where datname = current_database())";
    fixture.wait_count(left, 0).await;
}
