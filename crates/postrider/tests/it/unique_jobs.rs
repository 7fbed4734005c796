//! Unique jobs: which job stands for another, and for how long.

use std::time::Duration;

use postrider::{Awaited, Enqueued, Job, JobState, NewJob, Unique};
use serde_json::{Value, json};

use crate::enqueue::kind;
use crate::fixture::{Fixture, PATIENCE};
use crate::gate::Gate;

fn refresh(arguments: &Value, unique: Unique) -> NewJob {
    NewJob::new("refresh").unwrap().arguments(arguments).unwrap().unique(unique)
}

fn is_new(enqueued: Enqueued) -> bool {
    matches!(enqueued, Enqueued::Inserted(_))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_unique_by_the_arguments_that_were_named_within_kind_and_tenant() {
    let mut fixture = Fixture::new().await;
    fixture.kinds(&["refresh", "other"]).await;
    let (one, two) = (json!({"doc": 1, "by": "ada"}), json!({"by": "bob", "doc": 1}));
    let first = fixture.enqueue(&refresh(&one, Unique::by(["doc"]))).await;
    assert!(is_new(first));
    let second = fixture.enqueue(&refresh(&two, Unique::by(["doc"]))).await;
    assert_eq!(second, Enqueued::Exists(first.job_id()));
    for different in [
        refresh(&one, Unique::by_arguments()),
        refresh(&two, Unique::by_arguments()),
        refresh(&one, Unique::by_kind()),
        refresh(&json!({"doc": 2}), Unique::by(["doc"])),
        refresh(&one, Unique::by(["doc"])).tenant("acme"),
        NewJob::new("other").unwrap().arguments(&one).unwrap().unique(Unique::by(["doc"])),
        NewJob::new("refresh").unwrap().arguments(&one).unwrap(),
    ] {
        assert!(is_new(fixture.enqueue(&different).await), "{different:?}");
    }
    // The order of names and of keys says nothing.
    let order = refresh(&one, Unique::by(["by", "doc"]));
    assert!(is_new(fixture.enqueue(&order).await));
    assert!(!is_new(fixture.enqueue(&refresh(&one, Unique::by(["doc", "by", "doc"]))).await));
}

#[tokio::test(flavor = "multi_thread")]
async fn work_that_arrives_during_a_run_gets_a_run_of_its_own_unless_it_is_told_otherwise() {
    let mut fixture = Fixture::new().await;
    let gate = Gate::closed();
    let inside = gate.clone();
    let handler = move |_: Job<Value>| {
        let gate = inside.clone();
        async move { gate.pass().await }
    };
    let engine = fixture.engine().queue("default", 1).handle(kind("refresh"), handler);
    let engine = engine.start().await.unwrap();
    let doc = json!({"doc": 1});
    let first = fixture.enqueue(&refresh(&doc, Unique::by_arguments())).await.job_id();
    let running = "select count(*) from postrider.job where state = 'running'";
    fixture.wait_count(running, 1).await;
    let covered = refresh(&doc, Unique::by_arguments().also_while_running());
    assert_eq!(fixture.enqueue(&covered).await, Enqueued::Exists(first));
    let second = fixture.enqueue(&refresh(&doc, Unique::by_arguments())).await;
    assert!(is_new(second));
    let third = fixture.enqueue(&refresh(&doc, Unique::by_arguments())).await;
    assert_eq!(third, Enqueued::Exists(second.job_id()));
    gate.open();
    for id in [first, second.job_id()] {
        let Awaited::Done(end) = engine.await_job(id, PATIENCE).await.unwrap() else { panic!() };
        assert_eq!(end.state, JobState::Completed);
    }
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_stands_for_another_does_not_start_before_that_ones_transaction_ends() {
    let mut fixture = Fixture::new().await;
    fixture.sql("create table document (words text)").await;
    fixture.kinds(&["refresh"]).await;
    let job = refresh(&json!({"doc": 1}), Unique::by_arguments());
    let id = fixture.enqueue(&job).await.job_id();
    let mut other = fixture.db.client().await;
    let mut writer = other.transaction().await.unwrap();
    writer.execute("insert into document values ('new words')", &[]).await.unwrap();
    let found = fixture.recorder.enqueue(&mut writer, &job).await.unwrap();
    assert_eq!(found, Enqueued::Exists(id));
    // Workers look, and have other work of the same kind to show that they do.
    let url = fixture.db.url();
    let read = move |_: Job<Value>| {
        let url = url.clone();
        async move {
            let client = postrider::Database::new(&url).unwrap().connect().await.unwrap();
            let words = client.query("select words from document", &[]).await.unwrap();
            postrider::Outcome::done_with(&words.len()).unwrap()
        }
    };
    let engine = fixture.engine().handle(kind("refresh"), read).start().await.unwrap();
    let next = fixture.enqueue(&NewJob::new("refresh").unwrap()).await.job_id();
    let Awaited::Done(end) = engine.await_job(next, PATIENCE).await.unwrap() else { panic!() };
    assert_eq!(end.output::<i64>().unwrap(), 0, "nothing is committed yet");
    let waits = format!("select count(*) from postrider.job where id = {id} and attempt = 0");
    assert_eq!(fixture.count(&waits).await, 1);
    writer.commit().await.unwrap();
    let Awaited::Done(end) = engine.await_job(id, PATIENCE).await.unwrap() else { panic!() };
    assert_eq!(end.output::<i64>().unwrap(), 1, "the run sees what it stands for");
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_never_collides_with_a_job_that_was_enqueued_during_the_run() {
    let mut fixture = Fixture::new().await;
    let gate = Gate::closed();
    let inside = gate.clone();
    let handler = move |job: Job<Value>| {
        let gate = inside.clone();
        async move {
            gate.pass().await;
            if job.attempt == 1 { Err(postrider::HandlerError::retry("once more")) } else { Ok(()) }
        }
    };
    let engine = fixture.engine().handle(kind("refresh"), handler).start().await.unwrap();
    let job = refresh(&json!({}), Unique::by_arguments());
    let first = fixture.enqueue(&job).await.job_id();
    fixture.wait_count("select count(*) from postrider.job where state = 'running'", 1).await;
    let second = fixture.enqueue(&job).await;
    assert!(is_new(second));
    gate.open();
    for id in [first, second.job_id()] {
        let Awaited::Done(end) = engine.await_job(id, PATIENCE).await.unwrap() else { panic!() };
        assert_eq!(end.state, JobState::Completed);
    }
    assert_eq!(fixture.count("select sum(attempt)::bigint from postrider.job_history").await, 4);
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_stands_only_within_its_period_and_finished_ones_when_they_are_named() {
    let mut fixture = Fixture::new().await;
    fixture.kinds(&["refresh"]).await;
    let hour = Duration::from_secs(3600);
    let limited = refresh(&json!({}), Unique::by_kind().within(hour).in_states(JobState::ALL));
    let first = fixture.enqueue(&limited).await.job_id();
    fixture
        .sql(
            "update postrider.job set state = 'running', attempt = 1, lease_token = 1,
               started_at = now();
             select postrider.complete(id, 1) from postrider.job",
        )
        .await;
    assert_eq!(fixture.enqueue(&limited).await, Enqueued::Exists(first), "it is completed");
    let waiting = refresh(&json!({}), Unique::by_kind().within(hour));
    fixture
        .sql("update postrider.unique_key set enqueued_at = enqueued_at - interval '2 hours'")
        .await;
    let second = fixture.enqueue(&limited).await;
    assert!(is_new(second), "the hour is over");
    assert_eq!(fixture.enqueue(&waiting).await, Enqueued::Exists(second.job_id()));
    fixture
        .sql("update postrider.unique_key set enqueued_at = enqueued_at - interval '2 hours'")
        .await;
    assert!(is_new(fixture.enqueue(&waiting).await), "one that waits is over its period too");
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_forgotten_with_the_history_of_their_jobs_and_not_before() {
    let mut fixture = Fixture::new().await;
    fixture.kinds(&["refresh"]).await;
    let engine = fixture.engine().start().await.unwrap();
    fixture.enqueue(&refresh(&json!({"doc": 1}), Unique::by_arguments())).await;
    fixture.enqueue(&refresh(&json!({"doc": 2}), Unique::by_arguments())).await;
    fixture.sql("delete from postrider.job where arguments = '{\"doc\": 2}'").await;
    let keys = "select count(*) from postrider.unique_key";
    engine.maintain().await.unwrap();
    assert_eq!(fixture.count(keys).await, 2);
    engine.advance_clock(Duration::from_secs(8 * 24 * 3600));
    engine.maintain().await.unwrap();
    assert_eq!(fixture.count(keys).await, 1);
    assert!(!is_new(fixture.enqueue(&refresh(&json!({"doc": 1}), Unique::by_arguments())).await));
    engine.shutdown().await;
}
