//! A search index that follows a table: the subscription coalesces, the handler reads what is.
//!
//! `DATABASE_URL=postgres://… cargo run -p postrider --features engine --example
//! coalescing_indexer` renames a product many times. Events of one product that the relay finds
//! together are one job, for the latest of them. So the handler must not believe the event: it
//! reads the row as it is now, and a job that stands for ten events does the work of all.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use postrider::{Awaited, Database, Delivery, Engine, EventType, HandlerError};
use postrider::{NewEvent, Recorder, Subscription};
use tokio_postgres::Client;

const TABLES: &str = "
    create table if not exists product (id bigint primary key, name text not null);
    create table if not exists search_index (product_id bigint primary key, words text not null)";

/// `for share` makes the statement wait for whoever is changing the product and lets nobody change
/// it until it is indexed. Of two jobs that run at once, none writes an older state over a newer.
const INDEX: &str = "insert into search_index (product_id, words)
    select id, lower(name) from product where id = $1 for share
    on conflict (product_id) do update set words = excluded.words";

async fn index(client: Arc<Client>, delivery: Delivery) -> Result<(), HandlerError> {
    let id = delivery.event.subject.strip_prefix("product:").unwrap_or_default();
    let id: i64 = id.parse().map_err(HandlerError::permanent)?;
    client.execute(INDEX, &[&id]).await?;
    Ok(())
}

/// Gives product 1 each of the names, one transaction each, and returns what the index has for it.
pub async fn run(url: &str, names: &[&str]) -> Result<String, Box<dyn Error + Send + Sync>> {
    let database = Database::new(url)?;
    let mut client = database.connect().await?;
    client.batch_execute(TABLES).await?;
    let for_handlers = Arc::new(database.connect().await?);
    let engine = Engine::builder(database)
        .declare(EventType::new("product.renamed")?)
        .subscribe(Subscription::new("search.index", ["product.**"])?.coalesce(), move |delivery| {
            index(Arc::clone(&for_handlers), delivery)
        })
        .migrate_on_start()
        .start()
        .await?;

    let recorder = Recorder::default();
    let renamed = NewEvent::new("product.renamed", "product:1")?;
    let rename = "insert into product (id, name) values (1, $1)
        on conflict (id) do update set name = excluded.name";
    let mut last = None;
    for name in names {
        let mut transaction = client.transaction().await?;
        transaction.execute(rename, &[name]).await?;
        last = Some(recorder.record(&mut transaction, &renamed).await?);
        transaction.commit().await?;
    }

    let last = last.ok_or("at least one name is needed")?;
    let handled = engine.await_handled(last, "search.index", Duration::from_secs(30)).await?;
    engine.shutdown().await;
    if handled == Awaited::TimedOut {
        return Err("the index did not follow within 30 seconds".into());
    }
    let words = "select words from search_index where product_id = 1";
    Ok(client.query_one(words, &[]).await?.get(0))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let words =
        run(&std::env::var("DATABASE_URL")?, &["Lamp", "Desk lamp", "Reading LAMP"]).await?;
    println!("the index has: {words}");
    Ok(())
}
