//! Priority with ageing: what is urgent goes first, and nothing waits for ever.

use std::time::Duration;

use postrider::{Awaited, Job, NewJob, Priority};
use serde_json::{Value, json};

use crate::enqueue::kind;
use crate::fixture::{Fixture, PATIENCE};

/// A handler that says in which place its job ran.
fn placed() -> impl Fn(Job<Value>) -> std::future::Ready<postrider::Outcome> + Send + Sync {
    let place = std::sync::atomic::AtomicI64::new(0);
    move |_| {
        let place = place.fetch_add(1, std::sync::atomic::Ordering::AcqRel);
        std::future::ready(postrider::Outcome::done_with(&place).unwrap())
    }
}

/// In which place the bulk job ran beside `count` urgent ones; all were due since `age` before.
async fn place_of_bulk(count: usize, age: Duration) -> i64 {
    let mut fixture = Fixture::new().await;
    fixture.kinds(&["work"]).await;
    let bulk = NewJob::new("work").unwrap().priority(Priority::Bulk);
    let id = fixture.enqueue(&bulk).await.job_id();
    let urgent = NewJob::new("work").unwrap().arguments(&json!({"n": 1})).unwrap();
    let urgent = vec![urgent.priority(Priority::High); count];
    fixture.recorder.enqueue_many(&mut fixture.client, &urgent).await.unwrap();
    let age = i64::try_from(age.as_secs()).unwrap();
    let older = "update postrider.job set due_at = due_at - $1 * interval '1 s'";
    fixture.client.execute(older, &[&(age as f64)]).await.unwrap();
    let engine = fixture.engine().queue("default", 1).handle(kind("work"), placed());
    let engine = engine.start().await.unwrap();
    let Awaited::Done(end) = engine.await_job(id, PATIENCE).await.unwrap() else { panic!("ran") };
    engine.shutdown().await;
    end.output().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fresh_job_of_low_priority_runs_after_those_that_are_urgent() {
    assert_eq!(place_of_bulk(20, Duration::ZERO).await, 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_has_been_due_for_a_minute_is_not_last_however_many_are_urgent() {
    // Each claim gives it one chance in eight: that all of 300 pass it by is as good as impossible.
    let place = place_of_bulk(300, Duration::from_secs(61)).await;
    assert!(place < 300, "it ran last");
}
