//! Builds an engine: what it declares, what it handles, and what it may use.
//!
//! How it fails: [`Error`] at start, before anything runs, for a configuration that cannot work.
//! Invariant: a started engine has a current schema, its declarations in place, and a pool that is
//! large enough.

use std::collections::HashMap;
use std::future::Future;
use std::time::Duration;

use postrider_core::{EventType, HandlerError, IntoOutcome, Kind, Subscription};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::handler::{BoxFuture, Delivery, Handler};
use super::job::Job;
use super::relay::RelayConfig;
use super::running::{self, Handle, Parts};
use super::session::LEASE;
use crate::store::Store;
use crate::{Database, Error, ErrorKind, Periodic, Schema, admin, migrate};

/// What the engine's own loops may hold at once: the relay's pass, a claim, a settle, the renewal
/// of the lease, maintenance, and one for callers that wait or administer.
const OWN_CONNECTIONS: usize = 6;
/// The same in words, for the message of a pool that is too small.
const OWN_HOLDERS: &str = "relay, claims, settles, lease, maintenance, and one for callers";

/// What is said when the way to the database keeps no sessions.
const POOLED: &str = "a pooler in transaction mode is between: events are found by looking, not by \
    being woken; name a direct way with session_database (--session-url), or say poll_only \
    (--poll-only)";

/// Builds an [`crate::Engine`].
pub struct EngineBuilder {
    database: Database,
    /// The direct way for what needs a session, when `database` leads through a pooler.
    sessions: Option<Database>,
    schema: Schema,
    types: Vec<EventType>,
    subscriptions: Vec<(Subscription, Handler)>,
    periodic: Vec<Periodic>,
    queues: HashMap<String, usize>,
    name: Option<String>,
    relay: Option<RelayConfig>,
    poll: Duration,
    lease: Duration,
    drain_limit: Duration,
    waiters_max: usize,
    migrate: bool,
    poll_only: bool,
    problem: Option<Error>,
}

impl EngineBuilder {
    pub(crate) fn new(database: Database) -> Self {
        Self {
            database,
            sessions: None,
            schema: Schema::default(),
            types: Vec::new(),
            subscriptions: Vec::new(),
            periodic: Vec::new(),
            queues: HashMap::new(),
            name: None,
            relay: Some(RelayConfig {
                batch_max: 200,
                sweep: Duration::from_secs(1),
                uses_sessions: true,
                attempts_max: 5,
                retry_wait: Duration::from_secs(2),
            }),
            poll: Duration::from_secs(1),
            lease: LEASE,
            drain_limit: Duration::from_secs(20),
            waiters_max: 64,
            migrate: false,
            poll_only: false,
            problem: None,
        }
    }

    /// Uses another schema. Defaults to `postrider`.
    #[must_use]
    pub fn schema(mut self, schema: Schema) -> Self {
        self.schema = schema;
        self
    }

    /// Declares an event type at start.
    #[must_use]
    pub fn declare(mut self, event_type: EventType) -> Self {
        self.types.push(event_type);
        self
    }

    /// Handles the events of a durable subscription with an async function.
    ///
    /// The function may return `()`, an [`Outcome`](crate::Outcome), or a `Result` of either with a
    /// [`HandlerError`]: an error means "try again" unless it is permanent. It may run more than
    /// once for one event: after an error, a timeout, or the death of its process.
    #[must_use]
    pub fn subscribe<F, Fut>(mut self, subscription: Subscription, handler: F) -> Self
    where
        F: Fn(Delivery) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: IntoOutcome> + Send + 'static,
    {
        self.subscriptions.push((subscription, Handler::plain(handler)));
        self
    }

    /// Handles the events of a durable subscription inside a transaction of the engine, which
    /// settles the delivery in it and commits: what the function writes there happens exactly
    /// once. Each running handler holds one pooled connection.
    ///
    /// ```no_run
    /// # fn example(builder: postrider::EngineBuilder) -> Result<(), postrider::Error> {
    /// use postrider::Subscription;
    /// builder.subscribe_in_transaction(
    ///     Subscription::new("billing.ledger", ["order.paid"])?,
    ///     |delivery, transaction| Box::pin(async move {
    ///         let statement = "insert into ledger (event_id) values ($1)";
    ///         transaction.execute(statement, &[&delivery.event.id]).await?;
    ///         Ok(None)
    ///     }),
    /// );
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn subscribe_in_transaction<F>(mut self, subscription: Subscription, handler: F) -> Self
    where
        F: for<'a> Fn(
                Delivery,
                &'a tokio_postgres::Transaction<'a>,
            ) -> BoxFuture<'a, Result<Option<Box<RawValue>>, HandlerError>>
            + Send
            + Sync
            + 'static,
    {
        self.subscriptions.push((subscription, Handler::in_transaction(handler)));
        self
    }

    /// Handles the jobs of a kind with an async function, as [`EngineBuilder::subscribe`] does for
    /// deliveries. The kind is declared at start.
    ///
    /// ```no_run
    /// # fn example(builder: postrider::EngineBuilder) -> Result<(), postrider::Error> {
    /// use postrider::{HandlerError, Job, JobArguments, Kind};
    /// #[derive(serde::Serialize, serde::Deserialize)]
    /// struct Receipt { order_id: i64 }
    /// impl JobArguments for Receipt {
    ///     const KIND: &'static str = "mail.receipt";
    /// }
    /// async fn send(job: Job<Receipt>) -> Result<(), HandlerError> {
    ///     println!("a receipt for order {}", job.arguments.order_id);
    ///     Ok(())
    /// }
    /// builder.handle(Kind::named(Receipt::KIND)?, send);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn handle<A, F, Fut>(mut self, kind: Kind<A>, handler: F) -> Self
    where
        A: DeserializeOwned,
        F: Fn(Job<A>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: IntoOutcome> + Send + 'static,
    {
        self.subscriptions.push((kind.into_subscription(), Handler::job(handler)));
        self
    }

    /// Handles the jobs of a kind inside a transaction of the engine, as
    /// [`EngineBuilder::subscribe_in_transaction`] does for deliveries.
    #[must_use]
    pub fn handle_in_transaction<A, F>(mut self, kind: Kind<A>, handler: F) -> Self
    where
        A: DeserializeOwned,
        F: for<'a> Fn(
                Job<A>,
                &'a tokio_postgres::Transaction<'a>,
            ) -> BoxFuture<'a, Result<Option<Box<RawValue>>, HandlerError>>
            + Send
            + Sync
            + 'static,
    {
        self.subscriptions.push((kind.into_subscription(), Handler::job_in_transaction(handler)));
        self
    }

    /// Declares a periodic job at start. Its kind must be declared by then: by
    /// [`EngineBuilder::handle`] here, or by another program. Its jobs are enqueued by any process
    /// that runs a relay.
    ///
    /// ```no_run
    /// # fn example(builder: postrider::EngineBuilder) -> Result<(), postrider::Error> {
    /// use postrider::{Job, Kind, Periodic};
    /// let nightly = Periodic::new("report.nightly", "report.build", "30 2 * * *")?;
    /// builder
    ///     .handle(Kind::<serde_json::Value>::named("report.build")?, async |job: Job<_>| {
    ///         println!("the report of {:?}", job.tick_at);
    ///     })
    ///     .periodic(nightly.time_zone("Europe/Berlin")?);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn periodic(mut self, periodic: Periodic) -> Self {
        self.periodic.push(periodic);
        self
    }

    /// Sets how many jobs of a queue this process runs at once, 1 to 10,000. Defaults to 50.
    #[must_use]
    pub fn queue(mut self, name: impl Into<String>, limit: usize) -> Self {
        let name = name.into();
        if !(1..=10_000).contains(&limit) {
            let message =
                format!("queue `{name}`: a limit of {limit} is out of range, 1 to 10,000");
            self.problem = Some(Error::new(ErrorKind::Configuration, message).with_field("queue"));
        }
        self.queues.insert(name, limit);
        self
    }

    /// Names this process in the list of sessions. Defaults to the host name and process id, joined
    /// by a colon; what stands before the colon tells which processes share a host.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Runs no relay in this process: others must.
    #[must_use]
    pub fn without_relay(mut self) -> Self {
        self.relay = None;
        self
    }

    /// Sets how many events one fan-out transaction takes at most, 1 to 10,000. Defaults to 200.
    #[must_use]
    pub fn relay_batch(mut self, events: i32) -> Self {
        if !(1..=10_000).contains(&events) {
            let message = format!("a relay batch of {events} is out of range, 1 to 10,000");
            self.problem = Some(Error::new(ErrorKind::Configuration, message));
        }
        if let Some(relay) = &mut self.relay {
            relay.batch_max = events;
        }
        self
    }

    /// Sets how long a failed fan-out of one event waits before its next attempt; doubled for each
    /// further one. Defaults to 2 seconds.
    #[must_use]
    pub fn relay_retry_wait(mut self, wait: Duration) -> Self {
        if let Some(relay) = &mut self.relay {
            relay.retry_wait = wait;
        }
        self
    }

    /// Sets how often relay and worker look without being woken. Defaults to 1 second.
    #[must_use]
    pub fn poll_interval(mut self, every: Duration) -> Self {
        self.poll = every.max(Duration::from_millis(1));
        if let Some(relay) = &mut self.relay {
            relay.sweep = self.poll;
        }
        self
    }

    /// Neither listens nor keeps session locks and prepared statements, so that everything works
    /// behind a pooler in transaction mode; events are then found by polling. An engine that finds
    /// such a pooler at its start says so and does the same. With a direct way beside the pooler,
    /// [`EngineBuilder::session_database`] is better.
    #[must_use]
    pub fn poll_only(mut self) -> Self {
        self.poll_only = true;
        self
    }

    /// Listens and keeps session locks on direct connections to `database`, at most two of them;
    /// the database that the engine was built with may then be behind a pooler in transaction mode,
    /// and everything else goes through it. Both must lead to the same database.
    #[must_use]
    pub fn session_database(mut self, database: Database) -> Self {
        self.sessions = Some(database);
        self
    }

    /// Sets how long this process may be silent before its jobs are given to others, at least one
    /// second. Defaults to 15 seconds; it is renewed at a third of it.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease.max(Duration::from_secs(1));
        self
    }

    /// Sets how long running handlers may take to finish at a stop. Defaults to 20 seconds.
    #[must_use]
    pub fn drain_limit(mut self, limit: Duration) -> Self {
        self.drain_limit = limit;
        self
    }

    /// Sets how many callers may wait for fan-outs and handlers at once. Defaults to 64.
    #[must_use]
    pub fn waiters_max(mut self, waiters: usize) -> Self {
        self.waiters_max = waiters;
        self
    }

    /// Brings the schema up to date at start. Without it, a schema that is missing or older is an
    /// error that says so.
    #[must_use]
    pub fn migrate_on_start(mut self) -> Self {
        self.migrate = true;
        self
    }

    /// Checks everything, declares types and subscriptions, and starts the loops.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] for what cannot work: two handlers for one subscription, a pool
    /// too small (the message has the sum); [`ErrorKind::Schema`] for a schema that is missing,
    /// older or newer; [`ErrorKind::Unreachable`] when the database does not answer.
    pub async fn start(mut self) -> Result<Handle, Error> {
        if let Some(problem) = self.problem.take() {
            return Err(problem);
        }
        self.check_subscriptions()?;
        self.check_pool()?;
        self.check_schema().await?;
        let mut store = Store::new(&self.database, &self.schema)?;
        store.check_privileges().await?;
        if self.poll_only || self.sessions.is_some() {
            store = store.unnamed_statements();
        }
        let subscriptions: Vec<Subscription> =
            self.subscriptions.iter().map(|(subscription, _)| subscription.clone()).collect();
        let handlers = self.subscriptions.into_iter().map(|(_, handler)| handler).collect();
        let declared = store.declare(&self.types, &subscriptions, None).await?;
        for (name, glob) in &declared.unmatched {
            tracing::warn!(subscription = name, glob, "a glob matches no declared type");
        }
        for periodic in &self.periodic {
            admin::periodic::declare(&store, periodic).await?;
        }
        running::start(Parts {
            store,
            sessions: self.sessions.unwrap_or(self.database),
            subscriptions,
            handlers,
            queues: self.queues,
            name: self.name.unwrap_or_else(running::process_name),
            relay: self.relay,
            listens: !self.poll_only,
            poll: self.poll,
            lease: self.lease,
            drain_limit: self.drain_limit,
            waiters_max: self.waiters_max,
        })
        .await
    }

    fn check_subscriptions(&self) -> Result<(), Error> {
        let mut names = std::collections::HashSet::new();
        for (subscription, _) in &self.subscriptions {
            subscription.check()?;
            if subscription.sink != postrider_core::SinkKind::Handler {
                let message =
                    format!("`{}` is handled here, so its sink is `handler`", subscription.name);
                return Err(Error::new(ErrorKind::Configuration, message).with_field("sink"));
            }
            if !names.insert(&subscription.name) {
                let message = format!("two handlers for the subscription `{}`", subscription.name);
                return Err(Error::new(ErrorKind::Configuration, message));
            }
        }
        Ok(())
    }

    /// Refuses a pool that everything that may hold a connection could empty.
    fn check_pool(&self) -> Result<(), Error> {
        let queue_of = |subscription: &Subscription| subscription.policy.queue.clone();
        let holding: std::collections::BTreeSet<String> = self
            .subscriptions
            .iter()
            .filter(|(_, handler)| handler.holds_connection())
            .map(|(subscription, _)| queue_of(subscription))
            .collect();
        let limit =
            |queue: &String| self.queues.get(queue).copied().unwrap_or(super::QUEUE_LIMIT_DEFAULT);
        let handlers: usize = holding.iter().map(limit).sum();
        let (needed, size) = (OWN_CONNECTIONS + handlers, self.database.pool_size_max());
        if needed <= size {
            return Ok(());
        }
        let queues: Vec<String> =
            holding.iter().map(|queue| format!("{} in queue `{queue}`", limit(queue))).collect();
        let connections = if size == 1 { "connection" } else { "connections" };
        let mut message = format!(
            "the pool has {size} {connections}, but {needed} may be held at once: \
             {OWN_CONNECTIONS} by the engine ({OWN_HOLDERS})"
        );
        let mut hint = format!("set pool_size to {needed}");
        if !queues.is_empty() {
            let queues = queues.join(", ");
            message.push_str(&format!(" and {handlers} by handlers in transactions ({queues})"));
            hint.push_str(", or lower the limits of those queues");
        }
        Err(Error::new(ErrorKind::Configuration, message).with_field("pool_size").with_hint(hint))
    }

    /// Looks at the schema, and at whether the way to it keeps sessions.
    async fn check_schema(&mut self) -> Result<(), Error> {
        let mut client = self.database.connect().await?;
        if self.migrate {
            let steps = migrate::apply(&mut client, &self.schema).await?;
            if !steps.is_empty() {
                tracing::info!(?steps, schema = self.schema.name(), "migrated");
            }
        }
        self.database.in_time(migrate::require_current(&client, &self.schema)).await?;
        if !self.poll_only {
            let (direct, client) = match &self.sessions {
                Some(sessions) => (sessions, sessions.connect().await?),
                None => (&self.database, client),
            };
            self.poll_only = direct.in_time(direct.is_pooled(&client)).await?;
            if self.poll_only {
                let place = direct.place();
                tracing::warn!(place, "{POOLED}");
            }
        }
        if let Some(relay) = &mut self.relay {
            relay.uses_sessions = !self.poll_only;
        }
        Ok(())
    }
}
