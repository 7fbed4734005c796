//! The relay: claims per row, loses nothing that commits late, and never fans an event out twice.

use postrider::{NewEvent, Recorder};
use postrider_testkit::wait_until;

use crate::fixture::{Fixture, PATIENCE};

/// Waits until relays have looked at what is owed `looks` more times.
async fn relays_look(fixture: &Fixture, looks: i64) {
    let sql = "select coalesce(idx_scan, 0) + coalesce(seq_scan, 0) from pg_stat_user_tables
               where schemaname = 'postrider' and relname = 'owed'";
    let before = fixture.count(sql).await;
    wait_until("relays have looked again", PATIENCE, async || {
        let now = fixture.count(sql).await;
        (now >= before + looks).then_some(()).ok_or(format!("{} looks", now - before))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_commits_after_a_later_one_was_fanned_out_is_fanned_out_too() {
    let mut fixture = Fixture::new().await;
    fixture.declare(&["a.b"]).await;
    fixture.subscription("s", &["a.b"]).await;
    let engine = fixture.engine().start().await.unwrap();
    let mut late = fixture.db.client().await;
    let mut open = late.transaction().await.unwrap();
    let event = NewEvent::new("a.b", "early").unwrap();
    Recorder::default().record(&mut open, &event).await.unwrap();
    fixture.record("a.b", "late").await;
    fixture.wait_count("select count(*) from postrider.job", 1).await;
    open.commit().await.unwrap();
    fixture.wait_count("select count(*) from postrider.job", 2).await;
    let sql = "select e.subject from postrider.job j
               join postrider.event e on e.seq = j.event_seq order by j.id";
    assert_eq!(fixture.texts(sql).await, ["late", "early"], "claimed in the order of commits");
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lone_writer_that_stays_open_while_the_relay_looks_again_and_again_is_not_passed_by() {
    let fixture = Fixture::new().await;
    fixture.declare(&["a.b"]).await;
    fixture.subscription("s", &["a.b"]).await;
    let engine = fixture.engine().start().await.unwrap();
    let mut late = fixture.db.client().await;
    let mut open = late.transaction().await.unwrap();
    let event = NewEvent::new("a.b", "only").unwrap();
    Recorder::default().record(&mut open, &event).await.unwrap();
    // Nobody else writes, so the newest id that has ended stays below the writer's: a bound taken
    // from there would move past the event.
    relays_look(&fixture, 60).await;
    open.commit().await.unwrap();
    fixture.wait_count("select count(*) from postrider.job", 1).await;
    engine.shutdown().await;
}
