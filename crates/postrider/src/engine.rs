//! The engine: relay, workers and maintenance in the user's process.
//!
//! What it is: a few loops over one database. [`relay`] turns owed events into jobs, [`worker`]
//! runs them, [`settle`] writes the outcomes down, [`session`] keeps the lease, [`maintenance`]
//! rescues and tidies, [`listener`] and [`bell`] wake and let sleep.
//!
//! How it fails: a loop whose database is away waits and tries again; none of them ends before it
//! is told to. Invariants: no connection is held while user code runs, except the one of a handler
//! that works in a transaction of the engine; the pool is large enough for all that may hold one,
//! or the engine does not start.

mod attempt;
mod await_handled;
mod bell;
mod builder;
mod due;
mod handler;
mod handover;
mod health;
mod job;
mod listener;
mod maintenance;
mod neighbours;
mod periodic;
mod relay;
mod running;
mod session;
mod settle;
mod wake;
mod worker;

pub use await_handled::{Awaited, JobEnd};
pub use builder::EngineBuilder;
pub use handler::Delivery;
pub use health::{Health, Part, Trouble};
pub use job::Job;
pub use running::Handle;

/// How many jobs of one queue a process runs at once unless told otherwise.
pub(crate) const QUEUE_LIMIT_DEFAULT: usize = 50;

/// The engine of Postrider: build it, start it, run it until shutdown.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use postrider::{Database, Delivery, Engine, EventType, HandlerError, Subscription};
///
/// async fn index(delivery: Delivery) -> Result<(), HandlerError> {
///     println!("{} changed", delivery.event.subject);
///     Ok(())
/// }
///
/// let database = Database::new("postgres://app@localhost/shop")?;
/// let engine = Engine::builder(database)
///     .declare(EventType::new("order.placed")?.description("An order was placed."))
///     .subscribe(Subscription::new("search.index", ["order.**"])?.coalesce(), index)
///     .migrate_on_start()
///     .start()
///     .await?;
/// engine.run_until(async { let _ = tokio::time::sleep(std::time::Duration::from_secs(60)).await;
/// }).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Engine;

impl Engine {
    /// Starts to build an engine over `database`.
    #[must_use]
    pub fn builder(database: crate::Database) -> EngineBuilder {
        EngineBuilder::new(database)
    }
}

/// A number from −1.0 to 1.0 by chance. Version 4 ids are random enough to spread retries.
pub(crate) fn chance() -> f64 {
    let bits = uuid::Uuid::new_v4().as_u64_pair().1 as u32;
    f64::from(bits) / f64::from(u32::MAX) * 2.0 - 1.0
}

/// An error with its causes, joined by colons. What the server reported is told once: the driver's
/// errors below only say it again.
pub(crate) fn chain(error: &crate::Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source.filter(|_| error.sqlstate().is_none()) {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
