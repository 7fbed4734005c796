//! Debounced jobs: the latest arguments win, and the wait has an end.

use std::time::Duration;

use postrider::{Awaited, Enqueued, Job, NewJob, Unique};
use serde_json::{Value, json};

use crate::enqueue::kind;
use crate::fixture::{Fixture, PATIENCE};

const MINUTE: Duration = Duration::from_secs(60);

fn save(version: i32, wait: Duration, longest: Duration) -> NewJob {
    let arguments = json!({"doc": 1, "version": version});
    let unique = Unique::by(["doc"]).debounce(wait, longest);
    NewJob::new("save").unwrap().arguments(&arguments).unwrap().unique(unique)
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_in_a_window_the_latest_runs_once() {
    let mut fixture = Fixture::new().await;
    let echo = async |job: Job<Value>| postrider::Outcome::done_with(&job.arguments).unwrap();
    let engine = fixture.engine().handle(kind("save"), echo).start().await.unwrap();
    let first = fixture.enqueue(&save(1, MINUTE, 10 * MINUTE)).await;
    assert!(matches!(first, Enqueued::Inserted(_)));
    for version in 2..=20 {
        let found = fixture.enqueue(&save(version, MINUTE, 10 * MINUTE)).await;
        assert_eq!(found, Enqueued::Replaced(first.job_id()));
    }
    engine.advance_clock(MINUTE + Duration::from_secs(5));
    let waited = engine.await_job(first.job_id(), PATIENCE).await.unwrap();
    let Awaited::Done(end) = waited else { panic!("it ran") };
    assert_eq!(end.output::<Value>().unwrap()["version"], 20);
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_one_starts_the_wait_again_up_to_the_longest_from_the_first_on() {
    let mut fixture = Fixture::new().await;
    fixture.kinds(&["save"]).await;
    fixture.enqueue(&save(1, MINUTE, 10 * MINUTE)).await;
    let waits = "select extract(epoch from due_at - created_at)::bigint from postrider.job";
    assert_eq!(fixture.count(waits).await, 60);
    // The first one was nine and a half minutes ago.
    let age = "update postrider.job set created_at = created_at - interval '570 s'";
    fixture.sql(age).await;
    fixture.enqueue(&save(2, MINUTE, 10 * MINUTE)).await;
    assert_eq!(fixture.count(waits).await, 600);
    fixture.sql(age).await;
    fixture.enqueue(&save(3, MINUTE, 10 * MINUTE)).await;
    let is_due = "select count(*) from postrider.job where due_at <= clock_timestamp()";
    assert_eq!(fixture.count(is_due).await, 1, "beyond the longest wait it is due at once");
    assert_eq!(fixture.texts("select arguments ->> 'version' from postrider.job").await, ["3"]);
}
