//! B12: commits that wait for each other because each of them notifies. A writer notifies only
//! while a relay sleeps; here none does, so that not one of many transactions says a word.

use postrider::NewEvent;

use crate::ear::Ear;
use crate::fixture::Fixture;

const WRITERS: usize = 64;
const EVENTS: usize = 5;

/// Commits from many connections at once, one event in each transaction.
async fn write_from_everywhere(fixture: &Fixture, before: &str) {
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..WRITERS {
        let (mut client, recorder) = (fixture.db.client().await, fixture.recorder.clone());
        client.batch_execute(before).await.unwrap();
        writers.spawn(async move {
            for n in 0..EVENTS {
                let event = NewEvent::new("a.b", format!("x{writer}.{n}")).unwrap();
                recorder.record(&mut client, &event).await.unwrap();
            }
        });
    }
    while let Some(ended) = writers.join_next().await {
        ended.unwrap();
    }
    let recorded = fixture.count("select count(*) from postrider.event").await;
    assert_eq!(recorded, i64::try_from(WRITERS * EVENTS).unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn b12_sixty_four_writers_say_nothing_while_the_relay_is_awake() {
    let fixture = Fixture::new().await;
    fixture.declare(&["a.b"]).await;
    let mut ear = Ear::new(&fixture).await;
    write_from_everywhere(&fixture, "").await;
    assert!(ear.heard().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn b12_sixty_four_writers_that_were_told_to_be_silent_let_a_relay_sleep() {
    let fixture = Fixture::new().await;
    fixture.declare(&["a.b"]).await;
    let sleeper = fixture.db.client().await;
    let bell = "select pg_advisory_lock(bell) from postrider.wake_keys()";
    sleeper.batch_execute(bell).await.unwrap();
    let mut ear = Ear::new(&fixture).await;
    write_from_everywhere(&fixture, "set postrider.wake = off").await;
    assert!(ear.heard().await.is_empty());
}
