//! Why an outbox: a service that writes to its database and to a broker loses events or invents
//! them when it dies between the two; with `record` in the same transaction it does neither.

use std::sync::{Arc, Mutex};

use postrider::{Delivery, NewEvent, Recorder};

use crate::fixture::{Fixture, event_type};
use crate::support::eager;

/// Another system that takes messages, and knows nothing of the database's transactions.
#[derive(Clone, Default)]
struct Broker(Arc<Mutex<Vec<String>>>);

impl Broker {
    fn publish(&self, order: &str) {
        self.0.lock().unwrap().push(order.to_owned());
    }

    fn messages(&self) -> Vec<String> {
        let mut messages = self.0.lock().unwrap().clone();
        messages.sort();
        messages
    }
}

/// Where the process dies while it serves a request. Its connection ends with it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Dies {
    Never,
    BeforeTheCommit,
    AfterTheCommit,
}

const INSERT: &str = "insert into orders values ($1)";

/// Commits the order, then tells the broker.
async fn commit_then_publish(fixture: &Fixture, broker: &Broker, order: &str, dies: Dies) {
    let mut client = fixture.db.client().await;
    let transaction = client.transaction().await.unwrap();
    transaction.execute(INSERT, &[&order]).await.unwrap();
    if dies == Dies::BeforeTheCommit {
        return;
    }
    transaction.commit().await.unwrap();
    if dies == Dies::AfterTheCommit {
        return;
    }
    broker.publish(order);
}

/// Tells the broker, then commits the order.
async fn publish_then_commit(fixture: &Fixture, broker: &Broker, order: &str, dies: Dies) {
    let mut client = fixture.db.client().await;
    let transaction = client.transaction().await.unwrap();
    transaction.execute(INSERT, &[&order]).await.unwrap();
    broker.publish(order);
    if dies == Dies::BeforeTheCommit {
        return;
    }
    transaction.commit().await.unwrap();
}

/// Records the event with the order; publishing is the handler's business.
async fn record_with_the_order(fixture: &Fixture, order: &str, dies: Dies) {
    let mut client = fixture.db.client().await;
    let mut transaction = client.transaction().await.unwrap();
    transaction.execute(INSERT, &[&order]).await.unwrap();
    let event = NewEvent::new("order.placed", order).unwrap();
    Recorder::default().record(&mut transaction, &event).await.unwrap();
    if dies == Dies::BeforeTheCommit {
        return;
    }
    transaction.commit().await.unwrap();
}

const ORDERS: &str = "select name from orders order by name";

async fn shop() -> Fixture {
    let fixture = Fixture::new().await;
    fixture.sql("create table orders (name text)").await;
    fixture
}

#[tokio::test(flavor = "multi_thread")]
async fn writing_to_two_systems_loses_an_event_when_the_process_dies_after_the_commit() {
    let (fixture, broker) = (shop().await, Broker::default());
    commit_then_publish(&fixture, &broker, "fine", Dies::Never).await;
    commit_then_publish(&fixture, &broker, "undone", Dies::BeforeTheCommit).await;
    commit_then_publish(&fixture, &broker, "lost", Dies::AfterTheCommit).await;
    assert_eq!(fixture.texts(ORDERS).await, ["fine", "lost"]);
    assert_eq!(broker.messages(), ["fine"], "an order that nobody hears of");
}

#[tokio::test(flavor = "multi_thread")]
async fn writing_to_two_systems_invents_an_event_when_the_process_dies_before_the_commit() {
    let (fixture, broker) = (shop().await, Broker::default());
    publish_then_commit(&fixture, &broker, "fine", Dies::Never).await;
    publish_then_commit(&fixture, &broker, "invented", Dies::BeforeTheCommit).await;
    assert_eq!(fixture.texts(ORDERS).await, ["fine"]);
    assert_eq!(broker.messages(), ["fine", "invented"], "a message about no order");
}

#[tokio::test(flavor = "multi_thread")]
async fn with_the_outbox_nothing_is_lost_and_nothing_invented_at_the_same_two_points() {
    let (fixture, broker) = (shop().await, Broker::default());
    fixture.declare(&["order.placed"]).await;
    record_with_the_order(&fixture, "fine", Dies::Never).await;
    record_with_the_order(&fixture, "undone", Dies::BeforeTheCommit).await;
    record_with_the_order(&fixture, "kept", Dies::AfterTheCommit).await;
    let publishing = broker.clone();
    let engine = fixture
        .engine()
        .declare(event_type("order.placed"))
        .subscribe(eager("publish", &["order.*"], 5), move |delivery: Delivery| {
            let broker = publishing.clone();
            async move {
                broker.publish(&delivery.event.subject);
                // The broker has the message, and the handler dies before that is settled: the
                // message comes again under the same event id, and is never missing.
                assert!(delivery.event.subject != "kept" || delivery.attempt > 1);
            }
        })
        .start()
        .await
        .unwrap();
    fixture.wait_finished().await;
    engine.shutdown().await;
    assert_eq!(fixture.texts(ORDERS).await, ["fine", "kept"]);
    let mut distinct = broker.messages();
    assert_eq!(distinct, ["fine", "kept", "kept"], "at least once");
    distinct.dedup();
    assert_eq!(distinct, ["fine", "kept"], "every order, and no other");
}
