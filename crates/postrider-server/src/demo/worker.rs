//! A worker process: an engine with the three subscribers, until standard input ends.
//!
//! How it fails: it says why on standard error and ends; the demo reports that and starts another.
//! It ends by itself when the demo does, because its standard input is a pipe from it. Invariant:
//! it knows nothing of the demo but the database: all that it does would do in a real service.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use postrider::{
    Backoff, Database, Delivery, Engine, EngineBuilder, EventType, HandlerError, Policy, Schema,
    Subscription,
};
use serde::Deserialize;
use tokio::io::AsyncReadExt as _;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Statement};

use super::chance::{Chance, stream_of};
use super::failure::Failure;
use super::orders::EVENT_TYPES;
use super::place::ENGINE_SCHEMA;

/// What the demo waits for on a worker's standard output.
pub(super) const READY: &str = "ready";
/// How long a worker may be silent before its jobs go to others. Short, so that one sees it.
pub(super) const LEASE: Duration = Duration::from_secs(3);
/// Connections for handlers that are one statement each; they share them.
const LANES: usize = 3;
const BILLING_LIMIT: usize = 8;
const SEARCH_LIMIT: usize = 32;
/// Most audits only wait for the archive, so many may do so at once.
const AUDIT_LIMIT: usize = 400;
/// What the engine itself needs, and one for each payment under way.
const POOL: usize = 8 + BILLING_LIMIT;
/// How many of 100 audits find the archive busy.
const BUSY_PERCENT: u64 = 5;

/// The data of every event of the shop.
#[derive(Debug, Deserialize)]
struct OrderEvent {
    order_id: i64,
    amount_cents: i64,
}

/// A connection for handlers.
struct Lane {
    client: Client,
    search_put: Statement,
    audit_insert: Statement,
}

/// What the handlers share.
struct Shop {
    lanes: Vec<Lane>,
    next: AtomicUsize,
    worker: String,
    seed: u64,
}

impl Shop {
    async fn open(database: &Database, worker: &str, seed: u64) -> Result<Self, Failure> {
        let mut lanes = Vec::new();
        for _ in 0..LANES {
            let client = database.connect().await?;
            // A handler's row need not wait for the disk: its job is settled later in the log, so
            // whenever that is on disk the row is, too.
            client.batch_execute("set synchronous_commit = off").await?;
            lanes.push(Lane {
                search_put: client.prepare(include_str!("sql/search_put.sql")).await?,
                audit_insert: client.prepare(include_str!("sql/audit_insert.sql")).await?,
                client,
            });
        }
        Ok(Self { lanes, next: AtomicUsize::new(0), worker: worker.to_owned(), seed })
    }

    fn lane(&self) -> &Lane {
        &self.lanes[self.next.fetch_add(1, Ordering::Relaxed) % self.lanes.len()]
    }

    fn is_cut_off(&self) -> bool {
        self.lanes.iter().any(|lane| lane.client.is_closed())
    }
}

/// Runs the worker named `name` until standard input ends.
pub(super) async fn run(url: &str, name: &str, seed: u64) -> Result<bool, Failure> {
    // Warnings only: the demo shows them when a worker ends unexpectedly.
    let filter = tracing_subscriber::EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn"));
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .try_init();
    let database = Database::new(url)?.pool_size(POOL);
    let shop = Arc::new(Shop::open(&database, name, seed).await?);
    let mut builder = Engine::builder(database)
        .schema(Schema::new(ENGINE_SCHEMA)?)
        .name(name)
        .lease(LEASE)
        .drain_limit(Duration::from_secs(5));
    for (event_type, description) in EVENT_TYPES {
        let declared = EventType::new(event_type).map_err(postrider::Error::from)?;
        builder = builder.declare(declared.description(description));
    }
    let engine = subscribe(builder, &shop)?.start().await?;
    println!("{READY}");
    let cut_off = told_to_stop(&shop).await;
    engine.shutdown().await;
    match cut_off {
        true => Err(Failure::new("the connection to PostgreSQL was lost")),
        false => Ok(true),
    }
}

/// Waits for the end of standard input. Returns whether the database went away instead.
async fn told_to_stop(shop: &Shop) -> bool {
    let mut input = tokio::io::stdin();
    let mut bytes = [0_u8; 64];
    loop {
        tokio::select! {
            read = input.read(&mut bytes) => if !matches!(read, Ok(1..)) { return false },
            () = tokio::time::sleep(Duration::from_secs(1)) => if shop.is_cut_off() { return true },
        }
    }
}

/// Adds the three subscribers with their queues.
fn subscribe(builder: EngineBuilder, shop: &Arc<Shop>) -> Result<EngineBuilder, postrider::Error> {
    let (for_search, for_billing, for_audit) = (shop.clone(), shop.clone(), shop.clone());
    // Fails often and is forgiven soon: a person is watching.
    let waits = [100, 300, 1000].map(Duration::from_millis);
    let patient = Policy { backoff: Backoff::list(waits)?, ..policy("audit") };
    let search = Subscription::new("search.index", ["order.**"])?.coalesce();
    let billing = Subscription::new("billing.ledger", ["order.paid"])?;
    let audit = Subscription::new("audit", ["order.*"])?;
    Ok(builder
        .queue("search", SEARCH_LIMIT)
        .queue("billing", BILLING_LIMIT)
        .queue("audit", AUDIT_LIMIT)
        .subscribe(search.policy(policy("search")), move |delivery| {
            index(for_search.clone(), delivery)
        })
        .subscribe_in_transaction(
            billing.policy(policy("billing")),
            move |delivery, transaction| {
                let shop = for_billing.clone();
                Box::pin(async move {
                    let event: OrderEvent = delivery.event.data()?;
                    let statement = include_str!("sql/ledger_insert.sql");
                    let values: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 4] = [
                        (&event.order_id, Type::INT8),
                        (&delivery.event.id, Type::UUID),
                        (&event.amount_cents, Type::INT8),
                        (&shop.worker, Type::TEXT),
                    ];
                    transaction.execute_typed(statement, &values).await?;
                    Ok(None)
                })
            },
        )
        .subscribe(audit.policy(patient), move |delivery| audit_event(for_audit.clone(), delivery)))
}

/// A queue of its own for each subscriber, and retries within seconds.
fn policy(queue: &str) -> Policy {
    let backoff = Backoff::Exponential { base_ms: 100, max_ms: 2_000 };
    Policy { queue: queue.into(), max_attempts: 50, backoff, ..Policy::default() }
}

/// Coalescing: the event only says that something changed; what is indexed is the current state.
async fn index(shop: Arc<Shop>, delivery: Delivery) -> Result<(), HandlerError> {
    let event: OrderEvent = delivery.event.data()?;
    let lane = shop.lane();
    lane.client.execute(&lane.search_put, &[&event.order_id]).await?;
    Ok(())
}

/// Sends the event to a slow archive that is busy now and then, and notes every attempt.
async fn audit_event(shop: Arc<Shop>, delivery: Delivery) -> Result<(), HandlerError> {
    let what =
        format!("{} {} {}", delivery.event.subject, delivery.event.event_type, delivery.attempt);
    let mut chance = Chance::new(shop.seed, stream_of(&what));
    tokio::time::sleep(Duration::from_millis(50 + chance.below(100))).await;
    let went_well = !chance.percent(BUSY_PERCENT);
    let lane = shop.lane();
    let row: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
        [&delivery.event.id, &delivery.attempt, &went_well, &shop.worker];
    lane.client.execute(&lane.audit_insert, &row).await?;
    match went_well {
        true => Ok(()),
        false => Err("the archive is busy".into()),
    }
}
