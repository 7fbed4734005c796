//! A ledger that has each payment exactly once, though its handlers fail half way.
//!
//! `DATABASE_URL=postgres://… cargo run -p postrider --features engine --example
//! exactly_once_handler` records payments. The handler of `billing.ledger` works in a transaction
//! of the engine, which settles the delivery in it. That of `billing.mirror` has a transaction of
//! its own and settles there with `Delivery::complete`. Both fail on the first attempt, after their
//! insert: it goes with the transaction, and the second attempt writes the entry once.

use std::error::Error;
use std::time::Duration;

use postrider::{Backoff, Database, Delivery, Engine, EventType, HandlerError, Invalid};
use postrider::{NewEvent, Policy, Recorder, Subscription};

const TABLE: &str = "create table if not exists ledger (event_id uuid, book text)";
const INSERT: &str = "insert into ledger (event_id, book) values ($1, $2)";

/// Fails the first attempt, as a crash in the worst place would.
fn fail_at_first(delivery: &Delivery) -> Result<(), HandlerError> {
    (delivery.attempt > 1).then_some(()).ok_or("the first attempt fails after its insert".into())
}

/// Works in a transaction of its own. A real service takes the connection from its pool.
async fn mirror(database: Database, delivery: Delivery) -> Result<(), HandlerError> {
    let mut client = database.connect().await?;
    let mut transaction = client.transaction().await?;
    transaction.execute(INSERT, &[&delivery.event.id, &"mirror"]).await?;
    fail_at_first(&delivery)?;
    delivery.complete(&mut transaction).await?; // an error here means: somebody else has it now
    transaction.commit().await?; // the entry and the end of the job, or neither
    Ok(())
}

/// A subscription to payments that tries again at once, so that the example is over soon.
fn payments(name: &str) -> Result<Subscription, Invalid> {
    let policy =
        Policy { backoff: Backoff::list([Duration::from_millis(1)])?, ..Policy::default() };
    Ok(Subscription::new(name, ["payment.received"])?.policy(policy))
}

/// Records `count` events and returns when both subscriptions have handled all of them.
pub async fn run(url: &str, count: usize) -> Result<(), Box<dyn Error + Send + Sync>> {
    let database = Database::new(url)?;
    let mut client = database.connect().await?;
    client.batch_execute(TABLE).await?;
    let for_mirror = database.clone();
    let engine = Engine::builder(database)
        .declare(EventType::new("payment.received")?)
        .subscribe_in_transaction(payments("billing.ledger")?, |delivery, transaction| {
            Box::pin(async move {
                transaction.execute(INSERT, &[&delivery.event.id, &"ledger"]).await?;
                fail_at_first(&delivery)?;
                Ok(None)
            })
        })
        .subscribe(payments("billing.mirror")?, move |delivery| {
            mirror(for_mirror.clone(), delivery)
        })
        .queue("default", 2) // each handler in a transaction of the engine holds a connection
        .migrate_on_start()
        .start()
        .await?;

    let event = NewEvent::new("payment.received", "customer:1")?;
    let batch = vec![event; count];
    for id in Recorder::default().record_many(&mut client, &batch).await? {
        for name in ["billing.ledger", "billing.mirror"] {
            engine.await_handled(id, name, Duration::from_secs(30)).await?;
        }
    }
    engine.shutdown().await;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    run(&std::env::var("DATABASE_URL")?, 10).await?;
    println!("10 payments are handled: see the table ledger, 10 entries in each book");
    Ok(())
}
