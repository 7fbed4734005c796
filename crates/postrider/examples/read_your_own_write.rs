//! Read what a handler makes of your event, in the request that recorded it.
//!
//! `DATABASE_URL=postgres://… cargo run -p postrider --features engine --example
//! read_your_own_write` adds up deposits in a handler. The request records a deposit, commits,
//! waits until the handler has had the event, and then reads a balance that includes it. When the
//! wait takes too long the request goes on and says that the balance may be behind.

use std::error::Error;
use std::time::Duration;

use postrider::{Awaited, Database, Engine, EventType, Handle, NewEvent, Recorder, Subscription};
use tokio_postgres::Client;

const TABLE: &str = "create table if not exists balance (
    account text primary key, cents bigint not null)";
const ADD: &str = "insert into balance (account, cents) values ($1, $2)
    on conflict (account) do update set cents = balance.cents + excluded.cents";

#[derive(serde::Serialize, serde::Deserialize)]
struct Deposit {
    cents: i64,
}

/// One request: deposits and answers with the balance, and whether it has the deposit in it.
async fn deposit(
    engine: &Handle,
    client: &mut Client,
    cents: i64,
) -> Result<(i64, bool), Box<dyn Error + Send + Sync>> {
    let event = NewEvent::new("account.deposited", "account:1")?.data(&Deposit { cents })?;
    let mut transaction = client.transaction().await?;
    let id = Recorder::default().record(&mut transaction, &event).await?;
    transaction.commit().await?; // before it, nobody else can see the event

    let waited = engine.await_handled(id, "balance", Duration::from_secs(10)).await?;
    let read = "select cents from balance where account = 'account:1'";
    let cents = client.query_opt(read, &[]).await?.map_or(0, |row| row.get(0));
    Ok((cents, waited != Awaited::TimedOut))
}

/// Makes each deposit and returns the balance that was read right after it.
pub async fn run(url: &str, deposits: &[i64]) -> Result<Vec<i64>, Box<dyn Error + Send + Sync>> {
    let database = Database::new(url)?;
    let mut client = database.connect().await?;
    client.batch_execute(TABLE).await?;
    let engine = Engine::builder(database)
        .declare(EventType::new("account.deposited")?)
        .subscribe_in_transaction(
            Subscription::new("balance", ["account.deposited"])?,
            |delivery, transaction| {
                Box::pin(async move {
                    let Deposit { cents } = delivery.event.data()?;
                    transaction.execute(ADD, &[&delivery.event.subject, &cents]).await?;
                    Ok(None)
                })
            },
        )
        .queue("default", 2) // each handler in a transaction of the engine holds a connection
        .migrate_on_start()
        .start()
        .await?;
    let mut balances = Vec::new();
    for cents in deposits {
        let (balance, is_current) = deposit(&engine, &mut client, *cents).await?;
        if !is_current {
            return Err("the balance is behind: the handler took over 10 seconds".into());
        }
        balances.push(balance);
    }
    engine.shutdown().await;
    Ok(balances)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let balances = run(&std::env::var("DATABASE_URL")?, &[500, 250, -100]).await?;
    println!("the balance after each deposit, in cents: {balances:?}");
    Ok(())
}
