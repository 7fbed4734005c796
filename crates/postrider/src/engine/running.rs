//! A running engine: its tasks, how they are started and how they are stopped.
//!
//! How it fails: a task that panics is a bug; it is logged and the engine stops, so that the
//! process does not live on without it. Invariants: at a stop the relay goes first, then the
//! workers; the lease is renewed until the last handler has ended; a lost session is replaced by a
//! new one.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use postrider_core::Subscription;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinHandle;
use uuid::Uuid;

use super::handler::Handler;
use super::health::{Health, Part};
use super::neighbours::Presence;
use super::relay::{Relay, RelayConfig};
use super::session::{self, Kept};
use super::wake::Wakes;
use super::worker::{Registered, Stop, Worker, WorkerConfig};
use super::{listener, maintenance, periodic};
use crate::store::Store;
use crate::{Database, Error, ErrorKind};

/// The wait between attempts to open a new session.
const SESSION_AGAIN: Duration = Duration::from_secs(1);

/// How often the engine looks whether its own tasks still run.
const TASKS_LOOK: Duration = Duration::from_secs(1);

/// What the builder hands over.
pub(crate) struct Parts {
    pub(crate) store: Store,
    /// Where to listen and to keep locks.
    pub(crate) sessions: Database,
    pub(crate) subscriptions: Vec<Subscription>,
    pub(crate) handlers: Vec<Handler>,
    pub(crate) queues: HashMap<String, usize>,
    pub(crate) name: String,
    pub(crate) relay: Option<RelayConfig>,
    pub(crate) listens: bool,
    pub(crate) poll: Duration,
    pub(crate) lease: Duration,
    pub(crate) drain_limit: Duration,
    pub(crate) waiters_max: usize,
}

/// What the sessions of one engine share.
struct Shared {
    store: Store,
    subscriptions: Vec<Subscription>,
    handlers: Vec<Handler>,
    queues: HashMap<String, usize>,
    name: String,
    runs_relay: bool,
    poll: Duration,
    lease: Duration,
    drain_limit: Duration,
    wakes: Arc<Wakes>,
}

/// A running engine. Dropping it stops the loops at once; running jobs are then rescued by others
/// when the lease ends. Prefer [`Handle::shutdown`].
pub struct Handle {
    pub(super) store: Store,
    pub(super) wakes: Arc<Wakes>,
    pub(super) waiters: Arc<Semaphore>,
    stop_relay: watch::Sender<bool>,
    stop_worker: watch::Sender<bool>,
    stop_rest: watch::Sender<bool>,
    relay: Option<JoinHandle<()>>,
    worker: Option<JoinHandle<()>>,
    rest: Vec<JoinHandle<()>>,
}

/// Opens the session and starts every task.
pub(crate) async fn start(parts: Parts) -> Result<Handle, Error> {
    let wakes = Arc::new(Wakes::new());
    let vitals = wakes.vitals.clone();
    let on_duty = Arc::new(AtomicBool::new(false));
    let (stop_relay, relay_stops) = watch::channel(false);
    let (stop_worker, worker_stops) = watch::channel(false);
    let (stop_rest, rest_stops) = watch::channel(false);
    let store = parts.store.clone();
    let shared = Shared {
        store: parts.store,
        subscriptions: parts.subscriptions,
        handlers: parts.handlers,
        queues: parts.queues,
        name: parts.name,
        runs_relay: parts.relay.is_some(),
        poll: parts.poll,
        lease: parts.lease,
        drain_limit: parts.drain_limit,
        wakes: Arc::clone(&wakes),
    };
    let session = shared.open_session().await?;
    let mut rest = vec![
        tokio::spawn(maintenance::run_rescue(store.clone(), vitals.clone(), rest_stops.clone())),
        tokio::spawn(maintenance::run_housekeeping(store.clone(), vitals, rest_stops.clone())),
    ];
    if parts.relay.is_some() {
        let ticking = periodic::run(store.clone(), Arc::clone(&wakes), rest_stops.clone());
        rest.push(tokio::spawn(ticking));
    }
    if parts.listens {
        rest.push(tokio::spawn(listener::run(
            parts.sessions.clone(),
            store.clone(),
            Arc::clone(&wakes),
            Arc::clone(&on_duty),
            rest_stops,
        )));
    }
    let relay = parts.relay.map(|config| {
        let relay = Relay::new(store.clone(), config, Arc::clone(&wakes), parts.sessions, on_duty);
        tokio::spawn(relay.run(session.id, shared.lease, relay_stops))
    });
    let worker = tokio::spawn(shared.run_sessions(session, worker_stops));
    let waiters = Arc::new(Semaphore::new(parts.waiters_max));
    let worker = Some(worker);
    Ok(Handle { store, wakes, waiters, stop_relay, stop_worker, stop_rest, relay, worker, rest })
}

/// An open session with the handlers that it registered.
struct Session {
    id: Uuid,
    /// Tells the other engines of this process that this one runs.
    _presence: Presence,
    config: Arc<WorkerConfig>,
}

impl Shared {
    /// Opens a session and registers the handlers under it.
    async fn open_session(&self) -> Result<Session, Error> {
        let id = Uuid::new_v4();
        let presence = Presence::of(id);
        self.store.open_session(id, &self.name, self.runs_relay, self.lease).await?;
        let declared = match self.subscriptions.is_empty() {
            true => Vec::new(),
            false => self.store.declare(&[], &self.subscriptions, Some(id)).await?.subscription_ids,
        };
        let stored = self.store.subscriptions().await?;
        let registered = declared
            .into_iter()
            .zip(self.subscriptions.iter().zip(&self.handlers))
            .map(|(id, (subscription, handler))| {
                // A newer version of the code, or a person, may have named another queue.
                let queue = stored.iter().find(|known| known.id == id).map_or_else(
                    || subscription.policy.queue.clone(),
                    |known| known.declared.policy.queue.clone(),
                );
                let name = subscription.name.as_str().into();
                let queue_is_foreign = queue != subscription.policy.queue;
                (id, Registered { name, queue, queue_is_foreign, handler: handler.clone() })
            })
            .collect();
        let config = WorkerConfig {
            queues: self.queues.clone(),
            registered,
            poll: self.poll,
            drain_limit: self.drain_limit,
        };
        Ok(Session { id, _presence: presence, config: Arc::new(config) })
    }

    /// Runs one session after another until told to stop.
    async fn run_sessions(self, mut session: Session, mut stop: watch::Receiver<bool>) {
        loop {
            match self.run_session(&session, stop.clone()).await {
                Kept::Stopped => break,
                Kept::Lost => {}
            }
            session = loop {
                let opened = self.open_session().await;
                self.wakes.vitals.note(Part::Lease, &opened);
                match opened {
                    Ok(session) => break session,
                    Err(error) => tracing::warn!(%error, "no new session could be opened yet"),
                }
                tokio::select! {
                    () = tokio::time::sleep(SESSION_AGAIN) => {}
                    _ = stop.wait_for(|stop| *stop) => return,
                }
            };
        }
        let closed = self.store.close_session(session.id).await;
        // What this session kept in force for its own sake alone ends with it.
        let narrowed = if closed.is_ok() { self.store.narrow_globs().await } else { closed };
        if let Err(error) = narrowed {
            tracing::debug!(%error, "the session could not be closed; its lease will run out");
        }
    }

    /// Ends a session whose worker is gone, so that its jobs are rescued.
    async fn end_session(&self, session: Uuid) {
        if let Err(error) = self.store.close_session(session).await {
            tracing::warn!(%error, "the session could not be closed; its lease will run out");
        }
    }

    /// Runs one session to its end: claims until told to stop, then drains, renewing all along.
    async fn run_session(&self, session: &Session, mut stop: watch::Receiver<bool>) -> Kept {
        let (cancelled, cancelled_jobs) = mpsc::unbounded_channel();
        let (stop_keeper, keeper_stops) = watch::channel(false);
        let (stop_this, this_stops) = watch::channel(Stop::Not);
        let (store, vitals) = (self.store.clone(), self.wakes.vitals.clone());
        let keeper = session::keep(store, session.id, self.lease, vitals, cancelled, keeper_stops);
        let mut keeper = Owned(tokio::spawn(keeper));
        let (worker, settling) = Worker::new(
            self.store.clone(),
            session.id,
            Arc::clone(&session.config),
            Arc::clone(&self.wakes),
        );
        let mut working = Owned(tokio::spawn(async move {
            worker.run(this_stops, cancelled_jobs).await;
            // The settler ends when the last attempt has sent its outcome.
            let _ = settling.await;
        }));
        let (mut lost, mut worker_died) = (false, false);
        tokio::select! {
            kept = &mut keeper.0 => lost = kept.unwrap_or(Kept::Lost) == Kept::Lost,
            _ = &mut working.0 => worker_died = true,
            _ = stop.wait_for(|stop| *stop) => {}
        }
        if worker_died {
            // By a panic only: its jobs must not stay under a lease that goes on being renewed.
            tracing::error!("the worker ended unasked; a new session starts");
            self.end_session(session.id).await;
            return Kept::Lost;
        }
        stop_this.send_replace(if lost { Stop::SessionLost } else { Stop::Gracefully });
        while !lost && !working.0.is_finished() {
            tokio::select! {
                _ = &mut working.0 => break,
                kept = &mut keeper.0 => {
                    lost = kept.unwrap_or(Kept::Lost) == Kept::Lost;
                    stop_this.send_replace(Stop::SessionLost);
                }
            }
        }
        // A worker that is still at work ends here and stops its handlers; its settler goes on
        // until their ends are written or known to be stale.
        stop_keeper.send_replace(true);
        if lost { Kept::Lost } else { Kept::Stopped }
    }
}

/// A task that ends with its owner.
struct Owned<T>(JoinHandle<T>);

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Handle {
    /// Runs until `shutdown` is ready, then stops in order. Stops too when one of the engine's own
    /// tasks ends unasked, which only a bug can make it do: the process must not live on without
    /// it. An outage of the database ends nothing; [`Handle::health`] tells of it.
    ///
    /// # Errors
    /// [`ErrorKind::Bug`] when a task ended unasked; end the process with a failure then, so that
    /// it is started anew.
    pub async fn run_until(
        mut self,
        shutdown: impl Future<Output = ()> + Send,
    ) -> Result<(), Error> {
        let ended = tokio::select! {
            () = shutdown => Ok(()),
            name = self.task_ended() => {
                tracing::error!(task = name, "a task of the engine ended unasked; stopping");
                Err(Error::new(ErrorKind::Bug, format!("a task of the engine ended: {name}"))
                    .with_hint("start the process again, and please report it with its log"))
            }
        };
        self.shutdown().await;
        ended
    }

    /// How the loops of this engine are doing: which cannot do their work at the moment, since when
    /// and why. They go on trying; what is in trouble here for longer than a minute or two needs a
    /// person.
    ///
    /// ```no_run
    /// # fn example(engine: &postrider::Handle) {
    /// for trouble in engine.health().troubles {
    ///     eprintln!("{} is in trouble: {}", trouble.part, trouble.error);
    /// }
    /// # }
    /// ```
    #[must_use]
    pub fn health(&self) -> Health {
        self.wakes.vitals.look()
    }

    /// Ready when a task has ended that should run until it is told to stop.
    async fn task_ended(&mut self) -> &'static str {
        loop {
            let ended = |task: &JoinHandle<()>| task.is_finished();
            if self.relay.as_ref().is_some_and(ended) {
                return "relay";
            } else if self.worker.as_ref().is_some_and(ended) {
                return "worker";
            } else if self.rest.iter().any(ended) {
                return "maintenance";
            }
            tokio::time::sleep(TASKS_LOOK).await;
        }
    }

    /// Stops in order: the relay finishes its pass, workers claim nothing more, handlers get the
    /// drain limit (20 s unless set otherwise) to finish; what is unfinished then goes back to
    /// pending, not failed and not lost. The lease is renewed until the end.
    pub async fn shutdown(mut self) {
        self.stop_relay.send_replace(true);
        if let Some(relay) = self.relay.take() {
            joined(relay, "relay").await;
        }
        self.stop_worker.send_replace(true);
        if let Some(worker) = self.worker.take() {
            joined(worker, "worker").await;
        }
        self.stop_rest.send_replace(true);
        for task in self.rest.drain(..) {
            joined(task, "maintenance").await;
        }
    }

    /// Runs one round of maintenance now, with the engine's clock: takes jobs back from dead
    /// processes, enqueues the jobs of periodic jobs that are due, makes partitions, drops what
    /// is over its retention, cancels the jobs of deleted subscriptions, forgets old ids. The
    /// engine does all this by itself every few minutes; tests
    /// call it after [`Handle::advance_clock`], operators after a change of a retention.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Database`] or [`crate::ErrorKind::Unreachable`] when a step fails; the
    /// steps before it stay done, and the engine tries again at its next turn.
    pub async fn maintain(&self) -> Result<(), Error> {
        maintenance::rescue(&self.store).await?;
        periodic::look(&self.store, &self.wakes).await?;
        self.store.housekeeping().await
    }

    /// Enqueues the jobs of periodic jobs that are due now, with the engine's clock. Every process
    /// that runs a relay does so once a second; tests call it after [`Handle::advance_clock`].
    ///
    /// # Errors
    /// [`crate::ErrorKind::Database`] or [`crate::ErrorKind::Unreachable`].
    pub async fn enqueue_ticks(&self) -> Result<(), Error> {
        periodic::look(&self.store, &self.wakes).await
    }

    /// Moves the engine's clock forward, for tests: what is due in the future becomes due now.
    pub fn advance_clock(&self, by: Duration) {
        self.store.clock.advance(by);
        self.wakes.everything();
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        for task in self.relay.iter().chain(&self.worker).chain(&self.rest) {
            task.abort();
        }
    }
}

async fn joined(task: JoinHandle<()>, name: &str) {
    if let Err(error) = task.await
        && error.is_panic()
    {
        tracing::error!(task = name, "a task of the engine panicked; please report it");
    }
}

/// The name of this process for people: host and process id.
pub(crate) fn process_name() -> String {
    let host = std::env::var("HOSTNAME")
        .ok()
        .or_else(|| std::fs::read_to_string("/etc/hostname").ok())
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "localhost".to_owned());
    format!("{host}:{}", std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Schema;

    #[tokio::test]
    async fn an_engine_one_of_whose_tasks_ended_unasked_ends_with_an_error_that_names_it() {
        let database = Database::new("postgres://nobody@127.0.0.1:1/none").expect("a URL");
        let store = Store::new(&database, &Schema::default()).expect("nothing is connected yet");
        let stop = || watch::channel(false).0;
        let handle = Handle {
            store,
            wakes: Arc::new(Wakes::new()),
            waiters: Arc::new(Semaphore::new(1)),
            stop_relay: stop(),
            stop_worker: stop(),
            stop_rest: stop(),
            relay: Some(tokio::spawn(async {})),
            worker: None,
            rest: Vec::new(),
        };
        let ended = handle.run_until(std::future::pending()).await.expect_err("a task ended");
        assert_eq!(ended.kind(), ErrorKind::Bug);
        assert!(ended.to_string().contains("relay"), "{ended}");
    }
}
