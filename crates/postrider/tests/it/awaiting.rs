//! Waiting for what becomes of an event: read your own write.

use std::time::Duration;

use postrider::{Awaited, ErrorKind, HandlerError, JobState};
use uuid::Uuid;

use crate::fixture::{Fixture, PATIENCE, event_type};
use crate::gate::Gate;
use crate::support::{Seen, eager};

const MOMENT: Duration = Duration::from_millis(20);

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_waits_for_the_fan_out_finds_the_jobs_made() {
    let mut fixture = Fixture::new().await;
    fixture.declare(&["a.b"]).await;
    fixture.subscription("s", &["a.b"]).await;
    let engine = fixture.engine().start().await.unwrap();
    let one = fixture.record("a.b", "x").await;
    let two = fixture.record("a.b", "y").await;
    // An id that is named twice is one event.
    let awaited = engine.await_fanout(&[one, two, one], PATIENCE).await.unwrap();
    assert_eq!(awaited, Awaited::Done(()));
    assert_eq!(fixture.count("select count(*) from postrider.job").await, 2);
    assert_eq!(engine.await_fanout(&[], MOMENT).await.unwrap(), Awaited::Done(()));
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_waits_for_a_handler_gets_the_final_state() {
    let mut fixture = Fixture::new().await;
    let engine = fixture
        .engine()
        .declare(event_type("a.b"))
        .subscribe(eager("fine", &["a.b"], 1), async |_| ())
        .subscribe(eager("broken", &["a.b"], 1), async |_| Err::<(), HandlerError>("no".into()))
        .subscribe(eager("elsewhere", &["c.d"], 1), async |_| ())
        .start()
        .await
        .unwrap();
    let id = fixture.record("a.b", "x").await;
    let state = async |name: &str| engine.await_handled(id, name, PATIENCE).await.unwrap();
    assert_eq!(state("fine").await, Awaited::Done(Some(JobState::Completed)));
    assert_eq!(state("broken").await, Awaited::Done(Some(JobState::Discarded)));
    assert_eq!(state("elsewhere").await, Awaited::Done(None), "it was not routed there");
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_is_told_when_time_is_up() {
    let mut fixture = Fixture::new().await;
    let (seen, gate) = (Seen::default(), Gate::closed());
    let engine = fixture
        .engine()
        .without_relay()
        .declare(event_type("a.b"))
        .subscribe(eager("s", &["a.b"], 1), seen.then(gate.handler()))
        .start()
        .await
        .unwrap();
    let id = fixture.record("a.b", "x").await;
    assert_eq!(engine.await_fanout(&[id], MOMENT).await.unwrap(), Awaited::TimedOut);
    assert_eq!(engine.await_handled(id, "s", MOMENT).await.unwrap(), Awaited::TimedOut);
    let relay = fixture.engine().start().await.unwrap();
    assert_eq!(engine.await_fanout(&[id], PATIENCE).await.unwrap(), Awaited::Done(()));
    seen.wait_for(1).await;
    assert_eq!(engine.await_handled(id, "s", MOMENT).await.unwrap(), Awaited::TimedOut);
    gate.open();
    let handled = engine.await_handled(id, "s", PATIENCE).await.unwrap();
    assert_eq!(handled, Awaited::Done(Some(JobState::Completed)));
    relay.shutdown().await;
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_there_is_not_waited_for() {
    let mut fixture = Fixture::new().await;
    fixture.declare(&["a.b"]).await;
    let engine = fixture.engine().start().await.unwrap();
    let unknown = Uuid::new_v4();
    let error = engine.await_fanout(&[unknown], PATIENCE).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.hint().is_some_and(|hint| hint.contains("commit")), "{error:?}");
    let error = engine.await_handled(unknown, "s", PATIENCE).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    let id = fixture.record("a.b", "x").await;
    let error = engine.await_handled(id, "nobody", PATIENCE).await.unwrap_err();
    assert_eq!(error.to_string(), "there is no subscription `nobody`");
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sixty_fifth_caller_is_told_at_once_that_it_must_not_wait() {
    let mut fixture = Fixture::new().await;
    let engine = fixture.engine().without_relay().declare(event_type("a.b")).start().await.unwrap();
    let engine = std::sync::Arc::new(engine);
    let id = fixture.record("a.b", "x").await;
    let mut waiting = tokio::task::JoinSet::new();
    let mut refused = 0;
    for _ in 0..65 {
        let engine = std::sync::Arc::clone(&engine);
        waiting.spawn(async move { engine.await_fanout(&[id], PATIENCE).await });
    }
    // Sixty-four wait for a relay that is not there; one is back at once.
    let first = waiting.join_next().await.unwrap().unwrap().unwrap_err();
    assert_eq!(first.kind(), ErrorKind::Busy);
    refused += 1;
    let relay = fixture.engine().start().await.unwrap();
    while let Some(waited) = waiting.join_next().await {
        match waited.unwrap() {
            Ok(awaited) => assert_eq!(awaited, Awaited::Done(())),
            Err(_) => refused += 1,
        }
    }
    assert_eq!(refused, 1);
    assert_eq!(engine.await_fanout(&[id], PATIENCE).await.unwrap(), Awaited::Done(()));
    relay.shutdown().await;
}
