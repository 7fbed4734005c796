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

/// A queue of this process: its limit and how many of its jobs are unsettled.
#[derive(Debug)]
struct Queue {
    limit: usize,
    subscriptions: Vec<i32>,
    unsettled: Arc<AtomicUsize>,
    bounds: Bounds,
}

impl Queue {
    fn room(&self) -> usize {
        self.limit.saturating_sub(self.unsettled.load(Ordering::Acquire))
    }
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
        let mut queues: HashMap<&str, Queue> = HashMap::new();
        for (id, registered) in &config.registered {
            let name = registered.queue.as_str();
            // A queue that another version of the code named was not counted against the pool at
            // start, so handlers that hold a connection run one at a time there.
            let limit = match registered.queue_is_foreign && registered.handler.holds_connection() {
                true => 1,
                false => config.queues.get(name).copied().unwrap_or(super::QUEUE_LIMIT_DEFAULT),
            };
            let fresh = || Queue {
                limit,
                subscriptions: Vec::new(),
                unsettled: Arc::default(),
                bounds: Bounds::default(),
            };
            let queue = queues.entry(name).or_insert_with(fresh);
            queue.limit = queue.limit.min(limit);
            queue.subscriptions.push(*id);
        }
        let queues = queues.into_values().collect();
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
            tokio::select! {
                () = self.wakes.work.notified() => {}
                () = tokio::time::sleep(wait) => {}
                Some(jobs) = cancelled.recv() => self.cancel(&jobs),
                Some(lease) = self.ended.recv() => self.forget(lease),
                _ = stop.wait_for(|stop| *stop != Stop::Not) => {}
            }
        }
        let lost = *stop.borrow() == Stop::SessionLost;
        self.finish(lost, &mut stop).await;
    }

    /// Claims for every queue with room. Returns when to look again, unless woken.
    async fn fill(&mut self) -> Result<Next, crate::Error> {
        let (mut more, mut look) = (false, Duration::MAX);
        self.return_lost_claims().await?;
        for index in 0..self.queues.len() {
            let queue = &self.queues[index];
            let room = queue.room().min(CLAIM_MAX);
            if room == 0 {
                continue;
            }
            let most = i64::try_from(room).unwrap_or(i64::MAX);
            // Set until the answer is here: a claim may be committed and its answer lost.
            self.answer_lost = true;
            let (from, asked_at) = (queue.bounds.next(), Instant::now());
            let claimed =
                self.store.claim_jobs(self.session, &queue.subscriptions, most, &from).await?;
            self.answer_lost = false;
            let head = claimed.first().map(|job| (job.priority, job.head_due_at));
            let bounds = &mut self.queues[index].bounds;
            bounds.looked(from, asked_at.elapsed(), head);
            if claimed.is_empty() && !Bounds::was_everywhere(&from) {
                look = look.min(bounds.until_full_look().max(LOOK_AGAIN));
            }
            more |= !claimed.is_empty() && claimed.len() <= room;
            let lease_jobs = Arc::new(AtomicUsize::new(claimed.len()));
            if let Some(job) = claimed.first() {
                self.leases.push((job.lease.token, Arc::clone(&lease_jobs)));
            }
            for job in claimed {
                self.start(index, job, &lease_jobs);
            }
        }
        let more = more && self.queues.iter().any(|queue| queue.room() > 0);
        Ok(if more { Next::Now } else { Next::Within(look) })
    }

    /// After a claim whose answer may be lost, puts back what it took.
    async fn return_lost_claims(&mut self) -> Result<(), crate::Error> {
        self.leases.retain(|(_, jobs)| jobs.load(Ordering::Acquire) > 0);
        if !self.answer_lost {
            return Ok(());
        }
        let known: Vec<i64> = self.leases.iter().map(|(token, _)| *token).collect();
        let jobs = self.store.return_claims(self.session, &known).await?;
        self.answer_lost = false;
        if jobs > 0 {
            tracing::warn!(jobs, "the answer of a claim was lost; its jobs are pending again");
        }
        Ok(())
    }

    /// Starts the handler of a claimed job.
    fn start(&mut self, queue: usize, job: Claimed, lease_jobs: &Arc<AtomicUsize>) {
        let Some(registered) = self.config.registered.get(&job.subscription_id).cloned() else {
            // Claims name the registered subscriptions only.
            tracing::error!(job = job.lease.job_id, "claimed a job without a handler");
            return;
        };
        let lease = job.lease;
        let unsettled = Arc::clone(&self.queues[queue].unsettled);
        let lease_jobs = Arc::clone(lease_jobs);
        unsettled.fetch_add(1, Ordering::AcqRel);
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
                    unsettled,
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
                unsettled,
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
