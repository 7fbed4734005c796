//! Ids: made here, or given by the caller so that a repeated record is recognised.

use std::time::Duration;

use postrider::{ErrorKind, NewEvent, Recorder};
use postrider_testkit::wait_until;
use tokio_postgres::IsolationLevel;
use uuid::Uuid;

use crate::fixture::{Fixture, PATIENCE};

fn event(subject: &str, id: Uuid) -> NewEvent {
    NewEvent::new("a.b", subject).unwrap().id(id)
}

async fn fixture() -> Fixture {
    let fixture = Fixture::new().await;
    fixture.declare(&["a.b"]).await;
    fixture
}

#[tokio::test(flavor = "multi_thread")]
async fn ids_are_version_7_with_the_time_of_recording() {
    let mut fixture = fixture().await;
    let mut ids = std::collections::HashSet::new();
    for _ in 0..200 {
        ids.insert(fixture.record("a.b", "s").await);
    }
    assert_eq!(ids.len(), 200);
    let rows = fixture.client.query(
        "select id, floor(extract(epoch from occurred_at) * 1000)::bigint as ms,
           lag(occurred_at) over (order by seq) <= occurred_at as forward from postrider.event",
        &[],
    );
    for row in rows.await.unwrap() {
        let id: Uuid = row.get("id");
        assert!(ids.contains(&id));
        assert_eq!(id.get_version_num(), 7, "{id}");
        assert_eq!(id.get_variant(), uuid::Variant::RFC4122, "{id}");
        let (seconds, nanos) = id.get_timestamp().unwrap().to_unix();
        let ms = i64::try_from(seconds).unwrap() * 1000 + i64::from(nanos / 1_000_000);
        assert_eq!(ms, row.get::<_, i64>("ms"), "{id}");
        assert_ne!(row.get::<_, Option<bool>>("forward"), Some(false), "time ran backwards");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_id_with_the_same_content_is_one_event() {
    let mut fixture = fixture().await;
    let id = Uuid::new_v4();
    let full = || {
        let event = event("s", id).tenant("t").unwrap().header("x", "1").unwrap();
        event.data(&serde_json::json!({"a": 1, "b": [1.50]})).unwrap()
    };
    for _ in 0..3 {
        let found = fixture.recorder.record(&mut fixture.client, &full()).await.unwrap();
        assert_eq!(found, id);
    }
    // The key that would have been taken from the subject is no other content.
    let spelled_out = full().key("s").unwrap();
    assert_eq!(fixture.recorder.record(&mut fixture.client, &spelled_out).await.unwrap(), id);
    assert_eq!(fixture.count("select count(*) from postrider.event").await, 1);
    assert_eq!(fixture.count("select count(*) from postrider.owed").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_id_with_other_content_is_refused_whatever_differs() {
    let mut fixture = fixture().await;
    fixture.declare(&["a.c"]).await;
    let id = Uuid::new_v4();
    fixture.recorder.record(&mut fixture.client, &event("s", id)).await.unwrap();
    let others = [
        event("t", id),
        NewEvent::new("a.c", "s").unwrap().id(id),
        event("s", id).key("k").unwrap(),
        event("s", id).tenant("t").unwrap(),
        event("s", id).header("x", "1").unwrap(),
        event("s", id).data(&serde_json::json!({"a": 1})).unwrap(),
        event("s", id).bytes("a/b", "{}").unwrap(),
    ];
    for other in others {
        let error = fixture.recorder.record(&mut fixture.client, &other).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::IdTaken, "{other:?}");
        assert_eq!(error.field(), Some("id"));
        assert!(error.to_string().contains(&id.to_string()), "{error}");
    }
    assert_eq!(fixture.count("select count(*) from postrider.event").await, 1);
}

/// One transaction records under an id and stays open, a second records the same event under the
/// same id and waits; then the first ends. Returns what the second got.
async fn second_of_two(
    fixture: &mut Fixture,
    isolation: IsolationLevel,
    first_commits: bool,
) -> Result<Uuid, postrider::Error> {
    let id = Uuid::new_v4();
    let recorder = Recorder::default();
    let mut first = fixture.client.transaction().await.unwrap();
    recorder.record(&mut first, &event("s", id)).await.unwrap();
    let mut client = fixture.db.client().await;
    let second = tokio::spawn(async move {
        let builder = client.build_transaction().isolation_level(isolation);
        let mut transaction = builder.start().await.unwrap();
        let result = Recorder::default().record(&mut transaction, &event("s", id)).await;
        if result.is_ok() {
            transaction.commit().await.unwrap();
        }
        result
    });
    let watcher = fixture.db.client().await;
    wait_until("the second waits for the first", PATIENCE, async || {
        let sql = "select count(*) from pg_stat_activity
            where datname = current_database() and wait_event_type = 'Lock'";
        let found: i64 = watcher.query_one(sql, &[]).await.unwrap().get(0);
        (found == 1).then_some(()).ok_or(format!("{found} wait"))
    })
    .await;
    match first_commits {
        true => first.commit().await.unwrap(),
        false => first.rollback().await.unwrap(),
    }
    let result = second.await.unwrap();
    if let Ok(found) = &result {
        assert_eq!(*found, id);
    }
    result
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_transactions_with_one_id_the_second_waits_and_one_event_is_left() {
    let mut fixture = fixture().await;
    let mut events = 0;
    for isolation in [IsolationLevel::ReadCommitted, IsolationLevel::RepeatableRead] {
        for first_commits in [true, false] {
            let result = second_of_two(&mut fixture, isolation, first_commits).await;
            events += 1;
            match result {
                Ok(_) => {}
                // Its snapshot is older than the first one's commit: PostgreSQL asks to try again.
                Err(error) => {
                    assert!(
                        matches!(isolation, IsolationLevel::RepeatableRead) && first_commits,
                        "{error:?}"
                    );
                    assert_eq!(error.sqlstate(), Some("40001"));
                    assert!(error.is_transient());
                }
            }
            let found = fixture.count("select count(*) from postrider.event").await;
            assert_eq!(found, events, "first commits: {first_commits}");
            assert_eq!(fixture.count("select count(*) from postrider.record_key").await, events);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn after_the_window_an_id_is_forgotten_and_not_before() {
    let mut fixture = fixture().await;
    let engine = fixture.engine().without_relay().start().await.unwrap();
    let id = Uuid::new_v4();
    fixture.recorder.record(&mut fixture.client, &event("s", id)).await.unwrap();
    engine.advance_clock(Duration::from_secs(7 * 86_400 - 600));
    engine.maintain().await.unwrap();
    let error = fixture.recorder.record(&mut fixture.client, &event("t", id)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::IdTaken);
    engine.advance_clock(Duration::from_secs(601));
    engine.maintain().await.unwrap();
    assert_eq!(fixture.count("select count(*) from postrider.record_key").await, 0);
    let found = fixture.recorder.record(&mut fixture.client, &event("t", id)).await.unwrap();
    assert_eq!(found, id);
    let sql = format!("select count(*) from postrider.event where id = '{id}'");
    assert_eq!(fixture.count(&sql).await, 2);
    engine.shutdown().await;
}
