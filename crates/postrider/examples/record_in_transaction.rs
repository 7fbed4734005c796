//! A row and the event that tells of it, in one transaction: both are there, or neither is.
//!
//! `DATABASE_URL=postgres://… cargo run -p postrider --features engine --example
//! record_in_transaction` writes an order twice. The first transaction is rolled back and leaves
//! neither order nor event; the second is committed and leaves both. The same `Recorder` works in
//! transactions of sqlx, diesel-async and SeaORM.

use std::error::Error;

use postrider::{Database, Engine, EventType, Recorder, TypedEvent, Uuid};
use tokio_postgres::Transaction;

const TABLE: &str = "create table if not exists shop_order (
    id bigint generated always as identity primary key, customer text not null)";

#[derive(serde::Serialize, serde::Deserialize)]
struct OrderPlaced {
    order_id: i64,
    customer: String,
}

impl TypedEvent for OrderPlaced {
    const TYPE: &'static str = "order.placed";
}

/// Places an order in the caller's transaction and returns the id of its event.
async fn place_order(
    transaction: &mut Transaction<'_>,
    customer: &str,
) -> Result<Uuid, Box<dyn Error + Send + Sync>> {
    let insert = "insert into shop_order (customer) values ($1) returning id";
    let order_id: i64 = transaction.query_one(insert, &[&customer]).await?.get(0);
    let placed = OrderPlaced { order_id, customer: customer.to_owned() };
    let recorder = Recorder::default();
    Ok(recorder.record_typed(transaction, format!("order:{order_id}"), &placed).await?)
}

/// Returns the ids of the event that was rolled back and of the one that was committed.
pub async fn run(url: &str) -> Result<(Uuid, Uuid), Box<dyn Error + Send + Sync>> {
    let database = Database::new(url)?;
    let mut client = database.connect().await?;
    client.batch_execute(TABLE).await?;
    // An event type is declared once, by whichever service owns it.
    let engine = Engine::builder(database)
        .declare(EventType::new(OrderPlaced::TYPE)?.description("An order was placed."))
        .migrate_on_start()
        .start()
        .await?;

    let mut transaction = client.transaction().await?;
    let forgotten = place_order(&mut transaction, "nobody").await?;
    transaction.rollback().await?;

    let mut transaction = client.transaction().await?;
    let kept = place_order(&mut transaction, "Ada").await?;
    transaction.commit().await?;

    engine.shutdown().await;
    Ok((forgotten, kept))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let (forgotten, kept) = run(&std::env::var("DATABASE_URL")?).await?;
    println!("event {forgotten} was rolled back with its order, event {kept} was committed");
    Ok(())
}
