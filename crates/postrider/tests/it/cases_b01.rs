//! Case B01: an event whose transaction commits after a later one was delivered.

use std::time::Duration;

use postrider::{NewEvent, Recorder};

use crate::fixture::{Fixture, event_type};
use crate::relay::relays_look;
use crate::support::{Seen, eager};

/// Delivers `e2` while the transaction of `e1` stays open, then ends that one.
async fn b01(commits: bool) {
    let mut fixture = Fixture::new().await;
    let seen = Seen::default();
    let engine = fixture
        .engine()
        .declare(event_type("a.b"))
        .subscribe(eager("s", &["a.b"], 3), seen.handler())
        .start()
        .await
        .unwrap();
    let mut a = fixture.db.client().await;
    let mut open = a.transaction().await.unwrap();
    let e1 = NewEvent::new("a.b", "e1").unwrap();
    Recorder::default().record(&mut open, &e1).await.unwrap();
    fixture.record("a.b", "e2").await;
    seen.wait_for(1).await;
    // The case waits 60 s, longer than any grace time. Here the engine's clock goes on by as much,
    // and the relay looks again many times, so that every bound it keeps has moved.
    engine.advance_clock(Duration::from_secs(60));
    relays_look(&fixture, 60).await;
    assert_eq!(seen.subjects("s"), ["e2"]);
    if commits {
        open.commit().await.unwrap();
        seen.wait_for(2).await;
        assert_eq!(seen.subjects("s"), ["e1", "e2"]);
    } else {
        open.rollback().await.unwrap();
        fixture.record("a.b", "e3").await;
        seen.wait_for(2).await;
        assert_eq!(seen.subjects("s"), ["e2", "e3"]);
    }
    fixture.wait_finished().await;
    engine.shutdown().await;
    assert_eq!(seen.runs().len(), 2, "nothing twice");
}

#[tokio::test(flavor = "multi_thread")]
async fn b01_an_event_that_commits_late_arrives_without_a_restart() {
    b01(true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b01_the_hole_of_a_rollback_holds_up_no_later_event() {
    b01(false).await;
}
