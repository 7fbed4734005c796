//! B14: slow handlers that empty the connection pool. The case asks for a pool of two; an engine
//! refuses to start with less than six, one for each loop that may hold one and one for callers, so
//! six is the smallest pool that there is. A running handler holds none of them.

use std::time::Duration;

use postrider::{Awaited, ErrorKind, Handle};
use postrider_testkit::wait_until;

use crate::fixture::{Fixture, PATIENCE, event_type};
use crate::gate::Gate;
use crate::support::{Seen, eager};

/// What the engine demands at its start when no handler holds a connection.
const SMALLEST: usize = 6;
const HANDLERS: usize = 20;

/// Records an event and asks about it through the pool of the engine.
async fn record_and_ask(fixture: &mut Fixture, engine: &Handle, subject: &str) {
    let id = fixture.record("a.b", subject).await;
    let fanned = engine.await_fanout(&[id], PATIENCE).await.unwrap();
    assert_eq!(fanned, Awaited::Done(()), "{subject}");
}

/// Waits until the lease of the only process ends later than it does now.
async fn wait_renewed(fixture: &Fixture) {
    let ends = "select expires_at::text from postrider.session where ended_at is null";
    let before = fixture.texts(ends).await;
    wait_until("the lease is renewed", PATIENCE, async || {
        let now = fixture.texts(ends).await;
        (now.len() == 1 && now > before).then_some(()).ok_or(format!("{before:?}, now {now:?}"))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b14_slow_handlers_hold_no_connection_of_the_smallest_pool() {
    let mut fixture = Fixture::new().await;
    let (seen, gate) = (Seen::default(), Gate::closed());
    let builder = |size| {
        postrider::Engine::builder(fixture.database().pool_size(size))
            .poll_interval(Duration::from_millis(100))
            .lease(Duration::from_secs(2))
            .declare(event_type("a.b"))
            .subscribe(eager("s", &["a.b"], 3), seen.then(gate.handler()))
    };
    let refused = builder(SMALLEST - 1).start().await.err().unwrap();
    assert_eq!(refused.kind(), ErrorKind::Configuration);
    let engine = builder(SMALLEST).start().await.unwrap();
    fixture.record_many("a.b", "slow", i32::try_from(HANDLERS).unwrap()).await;
    seen.wait_for(HANDLERS).await;
    // Whoever is in a transaction since before this moment holds it for a handler.
    let moment = fixture.texts("select clock_timestamp()::text").await.remove(0);
    let holds = format!(
        "select count(*) from pg_stat_activity where datname = current_database()
           and state like 'idle in transaction%' and xact_start < '{moment}'"
    );
    fixture.wait_count(&holds, 0).await;
    for n in 0..3 {
        record_and_ask(&mut fixture, &engine, &format!("meanwhile{n}")).await;
        wait_renewed(&fixture).await;
    }
    seen.wait_for(HANDLERS + 3).await;
    assert_eq!(gate.most(), HANDLERS + 3, "all of them still run");
    gate.open();
    fixture.wait_finished().await;
    engine.shutdown().await;
    assert!(seen.runs().iter().all(|run| run.attempt == 1), "a job was taken for lost");
}
