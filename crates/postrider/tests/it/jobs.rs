//! What a handler says about its job, and what becomes of it.

use std::time::Duration;

use postrider::{Delivery, HandlerError, Outcome, Subscription};

use crate::fixture::{Fixture, event_type};
use crate::support::{Seen, eager};

pub(crate) const LOG: &str = "select attempt || ' ' || outcome || ' ' || coalesce(error, '-')
                   from postrider.job_attempt order by finished_at";
pub(crate) const HISTORY: &str =
    "select state || ' ' || attempt || ' ' || coalesce(last_error, '-')
                       from postrider.job_history";

/// Runs one event through a handler to the end of its job.
pub(crate) async fn run_one<F, Fut>(subscription: Subscription, handler: F) -> (Fixture, Seen)
where
    F: Fn(Delivery) -> Fut + Send + Sync + Clone + 'static,
    Fut: Future<Output: postrider::IntoOutcome> + Send + 'static,
{
    let mut fixture = Fixture::new().await;
    let seen = Seen::default();
    let engine = fixture
        .engine()
        .declare(event_type("a.b"))
        .subscribe(subscription, seen.then(handler))
        .start()
        .await
        .unwrap();
    fixture.record("a.b", "x").await;
    fixture.wait_finished().await;
    engine.shutdown().await;
    (fixture, seen)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_done_keeps_the_output_of_its_handler() {
    let handler =
        async |_: Delivery| Outcome::done_with(&serde_json::json!({"sum": 1.50})).unwrap();
    let (fixture, _) = run_one(eager("s", &["a.b"], 3), handler).await;
    assert_eq!(fixture.texts(HISTORY).await, ["completed 1 -"]);
    let output = "select output::text from postrider.job_history";
    assert_eq!(fixture.texts(output).await, [r#"{"sum": 1.5}"#]);
    assert_eq!(fixture.count("select count(*) from postrider.job_attempt").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_is_tried_again_until_the_attempts_are_used_up_and_each_attempt_is_kept() {
    let handler = async |delivery: Delivery| {
        Err::<(), HandlerError>(format!("error {}", delivery.attempt).into())
    };
    let (fixture, seen) = run_one(eager("s", &["a.b"], 3), handler).await;
    let attempts: Vec<i32> = seen.runs().iter().map(|run| run.attempt).collect();
    assert_eq!(attempts, [1, 2, 3]);
    let log = ["1 retry error 1", "2 retry error 2", "3 discarded error 3"];
    assert_eq!(fixture.texts(LOG).await, log);
    assert_eq!(fixture.texts(HISTORY).await, ["discarded 3 error 3"]);
    let complete = "select count(*) from postrider.job_attempt
                    where started_at <= finished_at and session_id is not null";
    assert_eq!(fixture.count(complete).await, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_that_is_permanent_discards_at_once() {
    let handler = async |_: Delivery| Err::<(), _>(HandlerError::permanent("never"));
    let (fixture, seen) = run_one(eager("s", &["a.b"], 3), handler).await;
    assert_eq!(seen.runs().len(), 1);
    assert_eq!(fixture.texts(LOG).await, ["1 discarded never"]);
    assert_eq!(fixture.texts(HISTORY).await, ["discarded 1 never"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snooze_uses_no_attempt() {
    let handler = {
        let times = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
        move |_: Delivery| {
            let time = times.fetch_add(1, std::sync::atomic::Ordering::AcqRel);
            let snooze = Outcome::Snooze(Duration::from_millis(1));
            std::future::ready(if time < 5 { snooze } else { Outcome::Done(None) })
        }
    };
    let (fixture, seen) = run_one(eager("s", &["a.b"], 1), handler).await;
    assert_eq!(seen.runs().len(), 6);
    assert!(seen.runs().iter().all(|run| run.attempt == 1));
    assert_eq!(fixture.texts(LOG).await, ["1 snoozed -"; 5]);
    assert_eq!(fixture.texts(HISTORY).await, ["completed 1 -"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_is_an_error_with_what_it_said() {
    let handler = |delivery: Delivery| async move {
        assert!(delivery.attempt > 1, "the first time it panics");
    };
    let (fixture, _) = run_one(eager("s", &["a.b"], 3), handler).await;
    let expected = "1 retry the handler panicked: the first time it panics";
    assert_eq!(fixture.texts(LOG).await, [expected]);
    let kept = ["completed 2 the handler panicked: the first time it panics"];
    assert_eq!(fixture.texts(HISTORY).await, kept);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_text_with_a_nul_and_a_very_long_one_are_stored() {
    let handler = |delivery: Delivery| async move {
        match delivery.attempt {
            1 => Err::<(), HandlerError>("a\0b".into()),
            2 => Err("é".repeat(1_000_000).into()),
            _ => Ok(()),
        }
    };
    let (fixture, _) = run_one(eager("s", &["a.b"], 3), handler).await;
    let log = fixture.texts(LOG).await;
    assert_eq!(log[0], "1 retry a\u{FFFD}b");
    assert!(log[1].starts_with("2 retry ééé") && log[1].ends_with('…') && log[1].len() < 5000);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_output_that_cannot_be_stored_gives_way_to_a_note_and_holds_up_no_other() {
    let mut fixture = Fixture::new().await;
    let handler = |delivery: Delivery| async move {
        let bad = delivery.event.subject == "bad";
        Outcome::done_with(if bad { "a\0b" } else { "fine" }).unwrap()
    };
    let engine = fixture
        .engine()
        .declare(event_type("a.b"))
        .subscribe(eager("s", &["a.b"], 2), handler)
        .start()
        .await
        .unwrap();
    fixture.record("a.b", "bad").await;
    fixture.record_many("a.b", "x", 20).await;
    fixture.wait_finished().await;
    engine.shutdown().await;
    let states = "select state || ' ' || count(*) from postrider.job_history group by state";
    let mut states = fixture.texts(states).await;
    states.sort();
    assert_eq!(states, ["completed 21"]);
    let outputs = "select count(*) || ' ' || (output ? 'output_not_stored')
                   from postrider.job_history group by output ? 'output_not_stored' order by 1";
    assert_eq!(fixture.texts(outputs).await, ["1 true", "20 false"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_event_was_deleted_by_hand_is_discarded_and_holds_up_no_other() {
    let mut fixture = Fixture::new().await;
    fixture.declare(&["a.b"]).await;
    fixture.subscription("s", &["a.b"]).await;
    let relay = fixture.engine().start().await.unwrap();
    for subject in ["bad", "good", "fine"] {
        fixture.record("a.b", subject).await;
    }
    fixture.wait_count("select count(*) from postrider.job", 3).await;
    relay.shutdown().await;
    fixture.sql("delete from postrider.event where subject = 'bad'").await;
    let seen = Seen::default();
    let engine =
        fixture.engine().subscribe(eager("s", &["a.b"], 2), seen.handler()).start().await.unwrap();
    fixture.wait_finished().await;
    engine.shutdown().await;
    assert_eq!(seen.subjects("s"), ["fine", "good"]);
    let kept = "select last_error from postrider.job_history where state = 'discarded'";
    assert_eq!(fixture.texts(kept).await, ["a job's event has no row in event"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn deep_and_exact_json_reaches_the_handler_as_it_was_recorded() {
    let fixture = Fixture::new().await;
    let seen: std::sync::Arc<std::sync::Mutex<Vec<String>>> = std::sync::Arc::default();
    let keep = std::sync::Arc::clone(&seen);
    let handler = move |delivery: Delivery| {
        let postrider::Payload::Json(text) = &delivery.event.payload else { panic!("bytes") };
        keep.lock().unwrap().push(text.get().to_owned());
        std::future::ready(())
    };
    let engine = fixture
        .engine()
        .declare(event_type("a.b"))
        .subscribe(eager("s", &["a.b"], 1), handler)
        .start()
        .await
        .unwrap();
    let deep = format!("{}{}{}", "[".repeat(500), "1.000000000000000000001", "]".repeat(500));
    let sql = "select postrider.record('a.b', 'x', $1::text::jsonb)";
    fixture.client.execute(sql, &[&deep]).await.unwrap();
    fixture.wait_finished().await;
    engine.shutdown().await;
    assert_eq!(*seen.lock().unwrap(), [deep]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_is_told_whether_its_delivery_repeats_the_past() {
    let mut fixture = Fixture::new().await;
    let told: std::sync::Arc<std::sync::Mutex<Vec<bool>>> = std::sync::Arc::default();
    let keep = std::sync::Arc::clone(&told);
    let handler = move |delivery: Delivery| {
        keep.lock().unwrap().push(delivery.is_replay);
        std::future::ready(())
    };
    let engine = fixture
        .engine()
        .declare(event_type("a.b"))
        .subscribe(eager("s", &["a.b"], 1), handler)
        .start()
        .await
        .unwrap();
    fixture.record("a.b", "x").await;
    fixture.wait_finished().await;
    for origin in ["replay", "redeliver", "test"] {
        let again = format!(
            "insert into postrider.job (event_seq, event_occurred_at, due_at, created_at,
               subscription_id, origin, priority, tenant)
             select event_seq, event_occurred_at, now(), now(), subscription_id, '{origin}',
               priority, tenant from postrider.job_history limit 1"
        );
        fixture.sql(&again).await;
        fixture.wait_finished().await;
    }
    engine.shutdown().await;
    assert_eq!(*told.lock().unwrap(), [false, true, true, false]);
    let origins = "select origin::text from postrider.job_history order by id";
    assert_eq!(fixture.texts(origins).await, ["fanout", "replay", "redeliver", "test"]);
}
