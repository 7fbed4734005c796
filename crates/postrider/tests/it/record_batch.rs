//! Batches: a bad element is named by its place, and nothing of the batch stays.

use postrider::{ErrorKind, NewEvent};
use uuid::Uuid;

use crate::fixture::Fixture;

/// The second element of a batch, the field that the refusal names, and a part of what it says.
const BAD: &[(&str, &str, &str)] = &[
    ("1", "events", "is a JSON number"),
    ("null", "events", "is a JSON null"),
    ("[]", "events", "is a JSON array"),
    (r#"{"subject": "s"}"#, "type", "is empty"),
    (r#"{"type": "a.b"}"#, "subject", "is empty"),
    (r#"{"type": null, "subject": "s"}"#, "type", "is empty"),
    (r#"{"type": 1, "subject": "s"}"#, "type", "is a JSON number"),
    (r#"{"type": "a.b", "subject": {"id": 1}}"#, "subject", "is a JSON object"),
    (r#"{"type": "a.b", "subject": "s", "key": 7}"#, "key", "is a JSON number"),
    (r#"{"type": "a.b", "subject": "s", "tenant": false}"#, "tenant", "is a JSON boolean"),
    (r#"{"type": "a.b", "subject": "s", "id": "1"}"#, "id", "no UUID"),
    (r#"{"type": "a.b", "subject": "s", "id": 1}"#, "id", "is a JSON number"),
    (r#"{"type": "a.b", "subject": "s", "body": "0g", "content_type": "a/b"}"#, "body", "base 16"),
    (r#"{"type": "a.b", "subject": "s", "body": "0", "content_type": "a/b"}"#, "body", "base 16"),
    (r#"{"type": "a.b", "subject": "s", "body": "00"}"#, "content_type", "is empty"),
    (r#"{"type": "a.b", "subject": "s", "headers": []}"#, "headers", "is a JSON array"),
    (r#"{"type": "a.b", "subject": "s", "headers": {"ce-id": "x"}}"#, "headers", "reserved"),
    (
        r#"{"type": "a.b", "subject": "s", "Subject": "x", "at": 1}"#,
        "events",
        "unknown field: Subject, at",
    ),
    (r#"{"type": "a.c", "subject": "s"}"#, "type", "not declared"),
    (r#"{"type": "postrider.x", "subject": "s"}"#, "type", "reserved"),
    (r#"{"type": "a.b", "subject": "a\tb"}"#, "subject", "control character"),
];

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_element_is_named_by_its_place_and_nothing_of_the_batch_stays() {
    let fixture = Fixture::new().await;
    fixture.declare(&["a.b"]).await;
    for (bad, field, says) in BAD {
        let good = r#"{"type": "a.b", "subject": "s"}"#;
        let batch = format!("[{good}, {bad}, {good}]");
        let call = "select postrider.record_many($1::text::jsonb)";
        let error = fixture.client.query(call, &[&batch]).await.expect_err(bad);
        let report = error.as_db_error().expect(bad);
        assert!(report.code().code().starts_with("PR"), "{bad}: {report:?}");
        assert_eq!(report.column(), Some(*field), "{bad}: {report:?}");
        let message = report.message();
        assert!(message.starts_with("event 2 of the batch: "), "{bad}: {message}");
        assert!(message.contains(says), "{bad}: {message}");
    }
    assert_eq!(fixture.count("select count(*) from postrider.event").await, 0);
    assert_eq!(fixture.count("select count(*) from postrider.owed").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_is_no_array_or_too_long_is_refused() {
    let fixture = Fixture::new().await;
    fixture.declare(&["a.b"]).await;
    let too_many = "(select jsonb_agg(jsonb_build_object('type', 'a.b', 'subject', n::text))
        from generate_series(1, 10001) n)";
    for (batch, says) in [
        ("'{}'", "an array"),
        ("'null'", "an array"),
        ("null", "an array"),
        ("'1'", "an array"),
        (too_many, "10001 in one batch, at most 10000"),
    ] {
        let call = format!("select postrider.record_many({batch})");
        let error = fixture.client.batch_execute(&call).await.expect_err(batch);
        let report = error.as_db_error().expect(batch);
        assert_eq!(
            (report.code().code(), report.column()),
            ("PR002", Some("events")),
            "{report:?}"
        );
        assert!(report.message().contains(says), "{report:?}");
    }
    let ids: Vec<Uuid> =
        fixture.client.query_one("select postrider.record_many('[]')", &[]).await.unwrap().get(0);
    assert!(ids.is_empty());
    let most = too_many.replace("10001", "10000");
    let call = format!("select cardinality(postrider.record_many({most}))::bigint");
    assert_eq!(fixture.count(&call).await, 10_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_keeps_its_order_and_writes_what_single_calls_write() {
    let mut fixture = Fixture::new().await;
    fixture.declare(&["a.b"]).await;
    let id = Uuid::new_v4();
    let events: Vec<NewEvent> = vec![
        NewEvent::new("a.b", "1").unwrap(),
        NewEvent::new("a.b", "2").unwrap().data(&serde_json::json!({"n": [1, null]})).unwrap(),
        NewEvent::new("a.b", "3").unwrap().bytes("image/png", vec![0, 255, 10]).unwrap(),
        NewEvent::new("a.b", "4").unwrap().key("k").unwrap().tenant("t").unwrap(),
        NewEvent::new("a.b", "5").unwrap().header("x", "é").unwrap().id(id),
        NewEvent::new("a.b", "6").unwrap().bytes("a/b", Vec::new()).unwrap(),
    ];
    let batch = fixture.recorder.record_many(&mut fixture.client, &events).await.unwrap();
    assert_eq!(batch.len(), events.len());
    assert_eq!(batch[4], id);
    let sql = "select array_agg(id order by seq) from postrider.event";
    let by_seq: Vec<Uuid> = fixture.client.query_one(sql, &[]).await.unwrap().get(0);
    assert_eq!(by_seq, batch);
    for event in &events {
        let again = fixture.recorder.record(&mut fixture.client, event).await.unwrap();
        assert_eq!(event.id.is_some(), again == id);
    }
    // Each kind of event is there twice and alike, but for the one that was recognised by its id.
    let sql = "
        select count(*) from (
          select 1 from postrider.event
          group by tenant, type, subject, key, data, body, content_type, headers
          having count(*) = case when subject = '5' then 1 else 2 end) alike";
    assert_eq!(fixture.count(sql).await, 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_that_is_taken_in_the_middle_of_a_batch_undoes_the_batch() {
    let mut fixture = Fixture::new().await;
    fixture.declare(&["a.b"]).await;
    let id = Uuid::new_v4();
    let first = NewEvent::new("a.b", "1").unwrap().id(id);
    let other = NewEvent::new("a.b", "2").unwrap().id(id);
    let batch = [NewEvent::new("a.b", "0").unwrap(), first, other];
    let error = fixture.recorder.record_many(&mut fixture.client, &batch).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::IdTaken);
    assert!(error.to_string().starts_with("event 3 of the batch"), "{error}");
    assert_eq!(fixture.count("select count(*) from postrider.event").await, 0);
    assert_eq!(fixture.count("select count(*) from postrider.record_key").await, 0);
}
