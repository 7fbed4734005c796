//! B09: events larger than a notification may be. What is said on the channel is a fixed word, so
//! that no size and no number of events makes a business transaction fail.

use postrider::{NewEvent, Subscription};

use crate::collect::collector;
use crate::ear::Ear;
use crate::fixture::{Fixture, event_type};
use crate::support::{Seen, eager};

/// Everything that writers and relays may say, whatever they are about.
const WORDS: [&str; 3] = ["owed", "fanned", "due"];

/// Somebody sleeps, as far as writers can tell: each transaction must ring.
async fn sleeper(fixture: &Fixture) -> tokio_postgres::Client {
    let client = fixture.db.client().await;
    client.batch_execute("select pg_advisory_lock(bell) from postrider.wake_keys()").await.unwrap();
    client
}

/// The writer rang once, and nothing was said but fixed words.
#[track_caller]
fn one_ring(words: &[String]) {
    assert_eq!(words.iter().filter(|word| *word == "owed").count(), 1, "{words:?}");
    assert!(words.iter().all(|word| WORDS.contains(&word.as_str())), "{words:?}");
}

/// A text that takes exactly `bytes` as JSON, mostly of the given character.
fn text_of(bytes: usize, character: char) -> String {
    let (inside, width) = (bytes - 2, character.len_utf8());
    let mut text = character.to_string().repeat(inside / width);
    text.push_str(&"x".repeat(inside % width));
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn b09_payloads_larger_than_a_notification_commit_and_arrive_unchanged() {
    let mut fixture = Fixture::new().await;
    fixture.sql("update postrider.setting set data_bytes_max = 2000000").await;
    let (handler, mut got) = collector();
    // An engine that only looks leaves the bell to the test.
    let engine = fixture
        .engine()
        .poll_only()
        .declare(event_type("a.b"))
        .subscribe(Subscription::new("s", ["**"]).unwrap(), handler)
        .start()
        .await
        .unwrap();
    let mut ear = Ear::new(&fixture).await;
    let _sleeping = sleeper(&fixture).await;
    for character in ['a', '\u{1F4EE}'] {
        for bytes in [7_999, 8_000, 8_001, 1 << 20] {
            let text = text_of(bytes, character);
            let event = NewEvent::new("a.b", "s").unwrap().data(&text).unwrap();
            assert_eq!(event.payload.as_json().map(str::len), Some(bytes));
            fixture.recorder.record(&mut fixture.client, &event).await.unwrap();
            let found: String = got.next().await.event.data().unwrap();
            assert!(found == text, "{bytes} bytes came back as {}", found.len() + 2);
            one_ring(&ear.heard().await);
        }
    }
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b09_five_thousand_events_of_one_transaction_say_one_word_and_arrive() {
    let mut fixture = Fixture::new().await;
    let seen = Seen::default();
    let engine = fixture
        .engine()
        .poll_only()
        .declare(event_type("a.b"))
        .subscribe(eager("s", &["a.b"], 3), seen.handler())
        .start()
        .await
        .unwrap();
    let mut ear = Ear::new(&fixture).await;
    let _sleeping = sleeper(&fixture).await;
    let mut transaction = fixture.client.transaction().await.unwrap();
    for n in 0..5_000 {
        let event = NewEvent::new("a.b", format!("x{n}")).unwrap().data(&"y".repeat(100)).unwrap();
        fixture.recorder.record(&mut transaction, &event).await.unwrap();
    }
    transaction.commit().await.unwrap();
    one_ring(&ear.heard().await);
    fixture.wait_finished().await;
    engine.shutdown().await;
    let mut subjects = seen.subjects("s");
    subjects.dedup();
    assert_eq!(subjects.len(), 5_000);
}
