//! B18: NUL and broken text, in payloads, errors and outputs. Payloads with it are refused at
//! recording; errors and outputs never keep a job from being settled.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use postrider::{Backoff, Delivery, ErrorKind, HandlerError, NewEvent, Outcome, Subscription};
use postrider_testkit::wait_until;
use serde_json::value::RawValue;

use crate::fixture::{Fixture, PATIENCE, event_type};

#[tokio::test(flavor = "multi_thread")]
async fn b18_a_payload_that_cannot_be_stored_is_refused_and_the_rest_of_the_transaction_is_usable()
{
    let mut fixture = Fixture::new().await;
    fixture.declare(&["a.b"]).await;
    fixture.client.batch_execute("create table business (n int)").await.unwrap();
    for text in [r#"{"a": "x\u0000y"}"#, r#"{"x\u0000y": 1}"#, r#""\ud83d""#, r#"{"\udc00": 1}"#] {
        let text = RawValue::from_string(text.to_owned()).unwrap();
        let event = NewEvent::new("a.b", "s").unwrap().raw_json(text.clone());
        let mut transaction = fixture.client.transaction().await.unwrap();
        transaction.execute("insert into business values (1)", &[]).await.unwrap();
        // The Rust interface refuses it before the database sees it: the transaction goes on.
        let error = fixture.recorder.record(&mut transaction, &event).await.unwrap_err();
        assert_eq!((error.kind(), error.field()), (ErrorKind::Invalid, Some("data")), "{text}");
        let says = error.to_string();
        assert!(says.contains("NUL") || says.contains("surrogate"), "{text}: {says}");
        // In SQL a refusal aborts as any error does, so a savepoint is needed.
        let savepoint = transaction.transaction().await.unwrap();
        let sql = format!("select postrider.record('a.b', 's', '{text}')");
        let error = savepoint.batch_execute(&sql).await.unwrap_err();
        assert!(matches!(error.code().unwrap().code(), "22P05" | "22P02"), "{text}: {error:?}");
        savepoint.rollback().await.unwrap();
        transaction.commit().await.unwrap();
    }
    assert_eq!(fixture.count("select count(*) from business").await, 4);
    assert_eq!(fixture.count("select count(*) from postrider.event").await, 0);
    // What looks as if it held NUL, but is a backslash and letters, is kept.
    let text = RawValue::from_string(r#"["\\u0000", "\ud83d\ude00"]"#.to_owned()).unwrap();
    let event = NewEvent::new("a.b", "s").unwrap().raw_json(text);
    fixture.recorder.record(&mut fixture.client, &event).await.unwrap();
    let kept =
        "select count(*) from postrider.event where data ->> 0 = '\\u0000' and data ->> 1 = '😀'";
    assert_eq!(fixture.count(kept).await, 1);
}

/// An error text of bytes as a receiver might answer them.
fn broken_text(n: usize) -> String {
    let bytes = [0x00, 0xFF, b'a', 0xE2, 0x82, 0x00, 0x1B, 0xC3, 0x28];
    match n {
        0 => String::from_utf8_lossy(&bytes).into_owned(),
        1 => "\0".repeat(10_000),
        _ => "€\0".repeat(5_000),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b18_an_error_with_nul_is_recorded_counts_and_never_leaves_the_job_running() {
    let mut fixture = Fixture::new().await;
    let runs = Arc::new(AtomicUsize::new(0));
    let failing = |permanent: bool| {
        let runs = Arc::clone(&runs);
        move |_: Delivery| {
            let n = runs.fetch_add(1, Ordering::SeqCst);
            async move {
                match (permanent, n % 2) {
                    (true, _) => Err::<(), _>(HandlerError::permanent(broken_text(n % 3))),
                    (false, 0) => Err(HandlerError::retry(broken_text(n % 3))),
                    (false, _) => panic!("{}", broken_text(0)),
                }
            }
        }
    };
    let minute = std::time::Duration::from_secs(3600);
    let mut retried = Subscription::new("retried", ["**"]).unwrap();
    retried.policy.backoff = Backoff::list([minute]).unwrap();
    let engine = fixture
        .engine()
        .declare(event_type("a.b"))
        .subscribe(retried, failing(false))
        .subscribe(Subscription::new("discarded", ["**"]).unwrap(), failing(true))
        .start()
        .await
        .unwrap();
    for _ in 0..10 {
        fixture.record("a.b", "s").await;
    }
    wait_until("every job has failed once", PATIENCE, async || {
        let sql = "select (select count(*) from postrider.job
              where state = 'pending' and attempt = 1 and last_error is not null)
            + (select count(*) from postrider.job_history where state = 'discarded')";
        let found = fixture.count(sql).await;
        (found == 20).then_some(()).ok_or(format!("{found} have"))
    })
    .await;
    assert_eq!(
        fixture.count("select count(*) from postrider.job where state = 'running'").await,
        0
    );
    let logged = "select count(*) from postrider.job_attempt where error like '%\u{FFFD}%'";
    assert_eq!(fixture.count(logged).await, 20);
    let longest = "select max(octet_length(error))::bigint from postrider.job_attempt";
    assert!(fixture.count(longest).await <= 4096);
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b18_an_output_that_cannot_be_stored_neither_undoes_the_work_nor_holds_up_others() {
    let mut fixture = Fixture::new().await;
    let engine = fixture
        .engine()
        .declare(event_type("a.b"))
        .subscribe(Subscription::new("s", ["**"]).unwrap(), |delivery: Delivery| async move {
            let text = match delivery.event.subject.as_str() {
                "nul" => r#"{"answer": "x\u0000y"}"#,
                "surrogate" => r#""\ud800""#,
                "number" => "1E200000",
                _ => r#"{"answer": 42}"#,
            };
            Ok::<_, HandlerError>(Outcome::Done(Some(RawValue::from_string(text.to_owned())?)))
        })
        .start()
        .await
        .unwrap();
    let subjects = ["good", "nul", "good", "surrogate", "number", "good"];
    let batch = subjects.map(|subject| NewEvent::new("a.b", subject).unwrap());
    fixture.recorder.record_many(&mut fixture.client, &batch).await.unwrap();
    wait_until("all are completed", PATIENCE, async || {
        let sql =
            "select count(*) from postrider.job_history where state = 'completed' and attempt = 1";
        let found = fixture.count(sql).await;
        (found == 6).then_some(()).ok_or(format!("{found} are"))
    })
    .await;
    engine.shutdown().await;
    let good = "select count(*) from postrider.job_history where output = '{\"answer\": 42}'";
    assert_eq!(fixture.count(good).await, 3);
    let noted = "select count(*) from postrider.job_history where output ? 'output_not_stored'";
    assert_eq!(fixture.count(noted).await, 3);
    assert_eq!(fixture.count("select count(*) from postrider.job").await, 0);
}
