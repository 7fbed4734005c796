//! B11: a notification queue that fills because a stray session listens and stays in a transaction.
//! Only PostgreSQL 17 lets a test make the queue so small that it fills, and older servers run
//! these tests too. What holds on each of them is tested: events are recorded and handled without
//! any notification of the writer, and the doctor shows how full the queue is.

use postrider::Schema;
use postrider::admin::Limits;

use crate::ear::Ear;
use crate::fixture::{Fixture, event_type};
use crate::support::{Seen, eager};

/// Listens on the channel of the schema, and stays in a transaction.
async fn stray(fixture: &Fixture) -> tokio_postgres::Client {
    let client = fixture.db.client().await;
    let channel = fixture.texts("select channel from postrider.wake_keys()").await;
    client.batch_execute(&format!("listen {}; begin; select 1", channel[0])).await.unwrap();
    client
}

#[tokio::test(flavor = "multi_thread")]
async fn b11_with_the_wake_up_off_writers_never_notify_and_an_engine_that_looks_finds_all() {
    let fixture = Fixture::new().await;
    let seen = Seen::default();
    let engine = fixture
        .engine()
        .poll_only()
        .declare(event_type("a.b"))
        .subscribe(eager("s", &["a.b"], 3), seen.handler())
        .start()
        .await
        .unwrap();
    let _stray = stray(&fixture).await;
    // Somebody sleeps, as far as writers can tell: they would ring.
    let sleeper = fixture.db.client().await;
    let bell = "select pg_advisory_lock(bell) from postrider.wake_keys()";
    sleeper.batch_execute(bell).await.unwrap();
    let mut ear = Ear::new(&fixture).await;
    fixture.record_many("a.b", "loud", 1).await;
    assert!(ear.heard().await.contains(&"owed".to_owned()), "writers would not ring");
    fixture.sql("set postrider.wake = off").await;
    for n in 0..20 {
        fixture.record_many("a.b", &format!("silent{n}."), 1).await;
    }
    assert!(!ear.heard().await.contains(&"owed".to_owned()));
    fixture.wait_finished().await;
    engine.shutdown().await;
    assert_eq!(seen.subjects("s").len(), 21);
}

#[tokio::test(flavor = "multi_thread")]
async fn b11_the_doctor_shows_how_full_the_notification_queue_is() {
    let fixture = Fixture::new().await;
    let (schema, limits) = (Schema::default(), Limits::default());
    let report = postrider::admin::examine(&fixture.database(), &schema, limits).await.unwrap();
    let finding = report.findings.iter().find(|finding| finding.check == "notifications");
    let found = &finding.expect("the doctor looks at it").found;
    assert!(found.starts_with("the notification queue is ") && found.contains('%'), "{found}");
}
