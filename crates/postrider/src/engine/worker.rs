//! The worker: claims jobs under the process's session, runs their handlers, has them settled.
//!
//! How it fails: a claim that fails is tried again after a moment; a handler that panics, fails or
//! runs too long ends its attempt. Invariants: a job runs only while its queue has room, and its
//! room is free again only when its outcome is settled or known to be stale; only subscriptions
//! that this process registered a handler for are claimed.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use postrider_core::Outcome;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;
use uuid::Uuid;

use super::attempt::{self, End, Finished};
use super::due::Bounds;
use super::handler::{Delivery, Handler, Work};
use super::handover::Room;
use super::health::Part;
use super::job::Job;
use super::relay::jittered;
use super::settle::Settler;
use super::wake::Wakes;
use crate::store::{Claimed, Found, Store};
use crate::{JobLease, Recorder};

/// Most jobs of one claim: more would make the lease row and the transaction long.
const CLAIM_MAX: usize = 500;
/// How long to wait after a claim that failed.
const CLAIM_AGAIN: Duration = Duration::from_millis(500);
/// How soon a look everywhere follows one that was bounded and found nothing, at the soonest.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// A subscription that this process handles.
#[derive(Clone)]
pub(crate) struct Registered {
    pub(crate) name: Arc<str>,
    /// The queue that the subscription named when the session was opened.
    pub(crate) queue: String,
    /// Whether that is not the queue that this code declares.
    pub(crate) queue_is_foreign: bool,
    pub(crate) handler: Handler,
}

/// A queue of this process.
#[derive(Debug)]
struct Queue {
    room: Arc<Room>,
    subscriptions: Vec<i32>,
    bounds: Bounds,
}

/// Everything that does not change while the engine runs.
pub(crate) struct WorkerConfig {
    /// Limits by queue name.
    pub(crate) queues: HashMap<String, usize>,
    /// Handlers by subscription id.
    pub(crate) registered: HashMap<i32, Registered>,
    /// How often to look for due jobs without being woken.
    pub(crate) poll: Duration,
    /// How long running handlers may take to finish at a stop.
    pub(crate) drain_limit: Duration,
}

/// The worker of one session.
pub(crate) struct Worker {
    store: Store,
    session: Uuid,
    config: Arc<WorkerConfig>,
    wakes: Arc<Wakes>,
    recorder: Arc<Recorder>,
    queues: Vec<Queue>,
    /// Dropping a sender stops the handler.
    running: HashMap<i64, (JobLease, oneshot::Sender<()>)>,
    finished: mpsc::UnboundedSender<Finished>,
    ended: mpsc::UnboundedReceiver<JobLease>,
    ended_sender: mpsc::UnboundedSender<JobLease>,
    /// The tokens of the claims that were answered, each with its count of unsettled jobs.
    leases: Vec<(i64, Arc<AtomicUsize>)>,
    /// Whether the answer of a claim may have been lost, so that jobs run here that nobody knows
    /// of.
    answer_lost: bool,
    /// Jobs that the relay of this process started.
    handed: mpsc::UnboundedReceiver<Vec<Claimed>>,
}

/// When to look for jobs again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// There may be more at once.
    Now,
    /// Within this time, or the poll interval if that is shorter.
    Within(Duration),
}

/// Why a worker stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Go on.
    Not,
    /// Claim nothing more, let handlers finish for a while, put the rest back.
    Gracefully,
    /// The session is lost: stop the handlers, settle nothing.
    SessionLost,
}

impl Worker {
    /// Starts the settler and returns the worker.
    pub(crate) fn new(
        store: Store,
        session: Uuid,
        config: Arc<WorkerConfig>,
        wakes: Arc<Wakes>,
    ) -> (Self, tokio::task::JoinHandle<()>) {
        let (finished, settle_these) = mpsc::unbounded_channel();
        let (ended_sender, ended) = mpsc::unbounded_channel();
        let settler = Settler::new(store.clone(), session, Arc::clone(&wakes));
        let settling = tokio::spawn(settler.run(settle_these));
        let mut queues: HashMap<&str, (usize, Vec<i32>)> = HashMap::new();
        for (id, registered) in &config.registered {
            let name = registered.queue.as_str();
            // A queue that another version of the code named was not counted against the pool at
            // start, so handlers that hold a connection run one at a time there.
            let limit = match registered.queue_is_foreign && registered.handler.holds_connection() {
                true => 1,
                false => config.queues.get(name).copied().unwrap_or(super::QUEUE_LIMIT_DEFAULT),
            };
            let queue = queues.entry(name).or_insert_with(|| (limit, Vec::new()));
            queue.0 = queue.0.min(limit);
            queue.1.push(*id);
        }
        let queue = |(limit, subscriptions)| Queue {
            room: Arc::new(Room::new(limit)),
            subscriptions,
            bounds: Bounds::default(),
        };
        let queues: Vec<Queue> = queues.into_values().map(queue).collect();
        let open =
            queues.iter().map(|queue| (Arc::clone(&queue.room), queue.subscriptions.clone()));
        let handed = wakes.handover.open(session, open.collect());
        let recorder = Arc::new(Recorder::new(&store.schema));
        let worker = Self {
            store,
            session,
            config,
            wakes,
            recorder,
            queues,
            running: HashMap::new(),
            finished,
            ended,
            ended_sender,
            leases: Vec::new(),
            answer_lost: false,
            handed,
        };
        (worker, settling)
    }

    /// Claims and runs until told to stop.
    pub(crate) async fn run(
        mut self,
        mut stop: watch::Receiver<Stop>,
        mut cancelled: mpsc::UnboundedReceiver<Vec<i64>>,
    ) {
        while *stop.borrow() == Stop::Not {
            let filled = self.fill().await;
            self.wakes.vitals.note(Part::Claims, &filled);
            let wait = match filled {
                Ok(Next::Now) => Duration::ZERO,
                Ok(Next::Within(look)) => jittered(self.config.poll).min(look),
                Err(error) => {
                    self.queues.iter_mut().for_each(|queue| queue.bounds.forget());
                    tracing::warn!(error = &error as &dyn std::error::Error, "a claim failed");
                    CLAIM_AGAIN
                }
            };
            if wait.is_zero() {
                self.forget_ended();
                tokio::task::yield_now().await;
                continue;
            }
            self.rest(wait, &mut stop, &mut cancelled).await;
        }
        let lost = *stop.borrow() == Stop::SessionLost;
        self.wakes.handover.close(self.session);
        self.take_last_handed(lost).await;
        self.finish(lost, &mut stop).await;
    }

    /// Waits for a reason to claim, at most `wait`.
    async fn rest(
        &mut self,
        wait: Duration,
        stop: &mut watch::Receiver<Stop>,
        cancelled: &mut mpsc::UnboundedReceiver<Vec<i64>>,
    ) {
        let wakes = Arc::clone(&self.wakes);
        let (woken, timeout) = (wakes.work.notified(), tokio::time::sleep(wait));
        tokio::pin!(woken, timeout);
        loop {
            tokio::select! {
                () = &mut woken => return,
                () = &mut timeout => return,
                Some(jobs) = self.handed.recv() => self.start_handed(jobs),
                Some(jobs) = cancelled.recv() => self.cancel(&jobs),
                Some(lease) = self.ended.recv() => self.forget(lease),
                _ = stop.wait_for(|stop| *stop != Stop::Not) => return,
            }
        }
    }

    /// Claims for every queue with room. Returns when to look again, unless woken.
    async fn fill(&mut self) -> Result<Next, crate::Error> {
        let (mut more, mut look) = (false, Duration::MAX);
        while let Ok(jobs) = self.handed.try_recv() {
            self.start_handed(jobs);
        }
        self.return_lost_claims().await?;
        for index in 0..self.queues.len() {
            let room = Arc::clone(&self.queues[index].room);
            let places = room.take(CLAIM_MAX);
            if places == 0 {
                // What waits may be due before anything that is fanned out now.
                room.set_drained(false);
                continue;
            }
            let claimed = self.claim(index, places, &mut look).await;
            let taken = claimed.as_ref().map_or(0, Vec::len).min(places);
            room.give_back(places - taken);
            let claimed = claimed?;
            room.set_drained(claimed.is_empty());
            more |= !claimed.is_empty();
            self.start_all(index, claimed);
        }
        let more = more && self.queues.iter().any(|queue| !queue.room.is_full());
        Ok(if more { Next::Now } else { Next::Within(look) })
    }

    /// Claims up to `most` jobs of a queue. `look` becomes the time until the next full look when
    /// that is sooner.
    async fn claim(
        &mut self,
        index: usize,
        most: usize,
        look: &mut Duration,
    ) -> Result<Vec<Claimed>, crate::Error> {
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let Queue { subscriptions, bounds, .. } = &mut self.queues[index];
        // Set until the answer is here: a claim may be committed and its answer lost.
        let lost_before = std::mem::replace(&mut self.answer_lost, true);
        let (from, asked_at) = (bounds.next(), Instant::now());
        let claimed = self.store.claim_jobs(self.session, subscriptions, most, &from).await?;
        self.answer_lost = lost_before;
        let head = claimed.first().map(|job| (job.priority, job.head_due_at));
        bounds.looked(from, asked_at.elapsed(), head);
        if claimed.is_empty() && !Bounds::was_everywhere(&from) {
            *look = (*look).min(bounds.until_full_look().max(LOOK_AGAIN));
        }
        Ok(claimed)
    }

    /// Starts what one claim of a queue brought, whose places are taken.
    fn start_all(&mut self, index: usize, claimed: Vec<Claimed>) {
        let Some(first) = claimed.first() else { return };
        let lease_jobs = Arc::new(AtomicUsize::new(claimed.len()));
        self.leases.push((first.lease.token, Arc::clone(&lease_jobs)));
        for job in claimed {
            self.start(index, job, &lease_jobs);
        }
    }

    /// Starts what a fan-out of this process brought.
    fn start_handed(&mut self, handed: Vec<Claimed>) {
        let Some(first) = handed.first() else { return };
        let lease_jobs = Arc::new(AtomicUsize::new(handed.len()));
        self.leases.push((first.lease.token, Arc::clone(&lease_jobs)));
        for job in handed {
            let has = |queue: &Queue| queue.subscriptions.contains(&job.subscription_id);
            if let Some(index) = self.queues.iter().position(has) {
                self.start(index, job, &lease_jobs);
            }
        }
    }

    /// At the end: what was handed over until now runs to its end like the rest, and what nobody
    /// knows of goes back.
    async fn take_last_handed(&mut self, lost: bool) {
        self.handed.close();
        while let Some(jobs) = self.handed.recv().await {
            self.start_handed(jobs);
        }
        if !lost && let Err(error) = self.return_lost_claims().await {
            tracing::debug!(%error, "jobs of an unheard claim stay until the session ends");
        }
    }

    /// After a claim whose answer may be lost, puts back what it took.
    async fn return_lost_claims(&mut self) -> Result<(), crate::Error> {
        self.leases.retain(|(_, jobs)| jobs.load(Ordering::Acquire) > 0);
        self.answer_lost |= self.wakes.handover.answer_was_lost();
        if !self.answer_lost {
            return Ok(());
        }
        // No fan-out starts jobs meanwhile, and those that did are known. One that hangs must not
        // hold up the claims: then it is for the next time.
        let Some(_order) = self.wakes.handover.try_hold() else { return Ok(()) };
        while let Ok(jobs) = self.handed.try_recv() {
            self.start_handed(jobs);
        }
        let known: Vec<i64> = self.leases.iter().map(|(token, _)| *token).collect();
        let jobs = self.store.return_claims(self.session, &known).await?;
        self.answer_lost = false;
        if jobs > 0 {
            tracing::warn!(jobs, "the answer of a claim was lost; its jobs are pending again");
        }
        Ok(())
    }

    /// Starts the handler of a claimed job, whose place is taken.
    fn start(&mut self, queue: usize, job: Claimed, lease_jobs: &Arc<AtomicUsize>) {
        let Some(registered) = self.config.registered.get(&job.subscription_id).cloned() else {
            // Claims name the registered subscriptions only.
            tracing::error!(job = job.lease.job_id, "claimed a job without a handler");
            return;
        };
        let lease = job.lease;
        let room = Arc::clone(&self.queues[queue].room);
        let lease_jobs = Arc::clone(lease_jobs);
        let attempts_left = match job.attempt {
            // The count cannot grow any more, so this is the last.
            i32::MAX => 0,
            attempt => {
                job.terms.max_attempts.saturating_add(job.extra_attempts).saturating_sub(attempt)
            }
        };
        let work = match job.found {
            Ok(found) => self.work(found, &registered.name, job.attempt, lease, &job.origin),
            Err(error) => {
                // The settler lives as long as the worker.
                let _ = self.finished.send(Finished {
                    lease,
                    attempt: job.attempt,
                    attempts_left,
                    terms: job.terms,
                    end: End::Outcome(Outcome::Discard(super::chain(&error))),
                    may_be_settled: false,
                    room,
                    lease_jobs,
                });
                return;
            }
        };
        let stop = attempt::start(
            attempt::Attempt {
                handler: registered.handler,
                work,
                terms: job.terms,
                attempts_left,
                room,
                lease_jobs,
            },
            self.store.clone(),
            self.finished.clone(),
            self.ended_sender.clone(),
        );
        self.running.insert(lease.job_id, (lease, stop));
    }

    /// What the handler is given.
    fn work(
        &self,
        found: Found,
        name: &Arc<str>,
        attempt: i32,
        lease: JobLease,
        origin: &str,
    ) -> Work {
        let (name, recorder) = (Arc::clone(name), Arc::clone(&self.recorder));
        match found {
            Found::Event(event) => {
                let is_replay = matches!(origin, "replay" | "redeliver");
                Work::Delivery(Delivery::new(event, name, attempt, is_replay, lease, recorder))
            }
            Found::Enqueued(job) => Work::Job(Job {
                arguments: job.arguments,
                kind: name,
                tenant: job.tenant,
                key: job.key,
                tick_at: job.tick_at,
                attempt,
                lease,
                recorder,
                completed: Arc::default(),
            }),
        }
    }

    /// Stops the handlers of jobs that were called off.
    fn cancel(&mut self, jobs: &[i64]) {
        for job in jobs {
            self.running.remove(job);
        }
    }

    fn forget(&mut self, lease: JobLease) {
        if self.running.get(&lease.job_id).is_some_and(|(held, _)| *held == lease) {
            self.running.remove(&lease.job_id);
        }
    }

    fn forget_ended(&mut self) {
        while let Ok(lease) = self.ended.try_recv() {
            self.forget(lease);
        }
    }

    /// Lets handlers finish, within the limit, then stops the rest. At a lost session there is
    /// nothing to wait for: whatever they return is stale.
    async fn finish(&mut self, lost: bool, stop: &mut watch::Receiver<Stop>) {
        if !lost {
            let deadline = tokio::time::Instant::now() + self.config.drain_limit;
            while !self.running.is_empty() {
                tokio::select! {
                    Some(lease) = self.ended.recv() => self.forget(lease),
                    () = tokio::time::sleep_until(deadline) => break,
                    _ = stop.wait_for(|stop| *stop == Stop::SessionLost) => break,
                }
            }
        }
        if !self.running.is_empty() {
            tracing::info!(handlers = self.running.len(), "stopping unfinished handlers");
            self.running.clear();
        }
    }
}
