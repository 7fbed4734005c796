//! The policy of a subscription: waits, attempts and timeouts, as they are stored.

use std::time::Duration;

use postrider::{Backoff, Delivery, HandlerError, Policy, Subscription};

use crate::fixture::{Fixture, event_type};
use crate::jobs::{HISTORY, LOG, run_one};
use crate::support::{Seen, eager};

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_waits_as_its_policy_says_within_ten_percent_by_the_clock_of_the_database() {
    let mut fixture = Fixture::new().await;
    let seen = Seen::default();
    let waits = [1000, 4000, 2000].map(Duration::from_secs);
    let backoff = Backoff::list(waits).unwrap();
    let policy = Policy { max_attempts: 4, backoff, ..Policy::default() };
    let handler = seen.then(async |_: Delivery| Err::<(), HandlerError>("no".into()));
    let engine = fixture
        .engine()
        .declare(event_type("a.b"))
        .subscribe(Subscription::new("s", ["a.b"]).unwrap().policy(policy), handler)
        .start()
        .await
        .unwrap();
    fixture.record("a.b", "x").await;
    for (attempt, expected) in [(1, 1000.0), (2, 4000.0), (3, 2000.0)] {
        let failed = format!(
            "select count(*) from postrider.job where state = 'pending' and attempt = {attempt}"
        );
        fixture.wait_count(&failed, 1).await;
        // From the end of the attempt to the next one, both by the shifted clock.
        let wait = "select extract(epoch from j.due_at - a.finished_at)::float8
                    from postrider.job j join postrider.job_attempt a
                    on a.job_id = j.id and a.attempt = j.attempt";
        let wait: f64 = fixture.client.query_one(wait, &[]).await.unwrap().get(0);
        assert!((expected * 0.899..=expected * 1.101).contains(&wait), "{wait} for {expected}");
        engine.advance_clock(Duration::from_secs(5000));
    }
    fixture.wait_finished().await;
    engine.shutdown().await;
    assert_eq!(seen.runs().len(), 4);
}

/// A subscription with a short timeout and three attempts.
fn hasty() -> Subscription {
    let mut hasty = eager("s", &["a.b"], 3);
    hasty.policy.timeout_ms = 50;
    hasty
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_that_takes_too_long_is_stopped_and_tried_again() {
    let handler = |delivery: Delivery| async move {
        if delivery.attempt == 1 {
            std::future::pending::<()>().await;
        }
        if delivery.attempt == 2 {
            loop {
                tokio::task::yield_now().await;
            }
        }
    };
    let (fixture, _) = run_one(hasty(), handler).await;
    let long = "the handler took longer than 50 ms";
    let log = [format!("1 retry {long}"), format!("2 retry {long}")];
    assert_eq!(fixture.texts(LOG).await, log);
    assert_eq!(fixture.texts(HISTORY).await, [format!("completed 3 {long}")]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_handler_that_blocks_its_thread_for_good_loses_its_place_to_the_next_attempt() {
    let mut fixture = Fixture::new().await;
    let (release, blocked) = std::sync::mpsc::channel::<()>();
    let blocked = std::sync::Arc::new(std::sync::Mutex::new(blocked));
    let handler = move |delivery: Delivery| {
        let blocked = std::sync::Arc::clone(&blocked);
        async move {
            if delivery.attempt == 1 {
                let _ = tokio::task::block_in_place(|| blocked.lock().unwrap().recv());
            }
        }
    };
    let engine = fixture
        .engine()
        .queue("default", 1)
        .declare(event_type("a.b"))
        .subscribe(hasty(), handler)
        .start()
        .await
        .unwrap();
    fixture.record("a.b", "x").await;
    fixture.wait_finished().await;
    assert_eq!(fixture.texts(LOG).await, ["1 retry the handler took longer than 50 ms"]);
    drop(release);
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_policy_in_the_row_is_in_force_not_the_one_in_the_code() {
    let mut fixture = Fixture::new().await;
    let seen = Seen::default();
    let failing = seen.then(async |_: Delivery| Err::<(), HandlerError>("no".into()));
    let engine = fixture
        .engine()
        .declare(event_type("a.b"))
        .subscribe(eager("s", &["a.b"], 20), failing)
        .start()
        .await
        .unwrap();
    let change = "update postrider.subscription set max_attempts = 2,
                  backoff = '{\"list\": {\"delays_ms\": [3600000]}}'";
    fixture.sql(change).await;
    fixture.record("a.b", "x").await;
    let waits = "select count(*) from postrider.job
                 where attempt = 1 and due_at > now() + interval '50 minutes'";
    fixture.wait_count(waits, 1).await;
    engine.advance_clock(Duration::from_secs(2 * 3600));
    fixture.wait_finished().await;
    engine.shutdown().await;
    assert_eq!(fixture.texts(HISTORY).await, ["discarded 2 no"]);
}
