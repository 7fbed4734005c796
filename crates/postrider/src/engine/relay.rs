//! The relay: the loop that claims owed events and turns each into jobs.
//!
//! How it fails: a pass that fails is tried again after 2 s, doubling to 60 s; then row by row, so
//! that one bad event holds up no other ([`recovery`]). Invariants: what is owed is found by
//! looking at owed rows, never by a cursor; the bounds in [`floor`] are hints under which a full
//! look is taken at least every ten seconds; the relay sleeps only after a full look that found
//! nothing.

mod floor;
mod recovery;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use uuid::Uuid;

use self::floor::Floor;
use self::recovery::Cause;
use super::bell::Bell;
use super::health::Part;
use super::neighbours;
use super::wake::Wakes;
use crate::store::{Fanned, Store};
use crate::{Database, Error, EventType};

/// How long the relay stays awake after the last event before it tries to sleep: going to sleep
/// makes writers ring, which costs them more than a few looks cost the relay.
const LINGER: Duration = Duration::from_millis(10);
/// How long after the start of a pass that found some events, though less than a batch, the next
/// one starts at the soonest. A pass costs the server nearly the same for one event as for ten, and
/// what it takes the writers lack. An event that finds the relay asleep or at rest is not kept.
const PACE: Duration = Duration::from_millis(4);
/// How long it waits before it asks for the bell again while a silent writer is open.
const BELL_AGAIN: Duration = Duration::from_millis(50);
/// How often the relay on duty asks the others for help, at most.
const HELP_EVERY: Duration = Duration::from_millis(50);
/// How long the relay fans out without a pause before it looks after failed events and the stop.
const LOOK_MAX: Duration = Duration::from_secs(1);
/// The waits after failed passes.
const BACKOFF_MIN: Duration = Duration::from_secs(2);
const BACKOFF_MAX: Duration = Duration::from_secs(60);

/// How the relay is set up.
#[derive(Debug, Clone)]
pub(crate) struct RelayConfig {
    /// Most events of one fan-out transaction.
    pub(crate) batch_max: i32,
    /// How often a relay that sleeps looks without being woken.
    pub(crate) sweep: Duration,
    /// Whether it may listen and lock; otherwise it only sweeps.
    pub(crate) uses_sessions: bool,
    /// How often the fan-out of one event is tried before it is poisoned.
    pub(crate) attempts_max: i32,
    /// The wait after the first failed attempt of one event; doubled for each further one.
    pub(crate) retry_wait: Duration,
}

/// One relay loop.
pub(crate) struct Relay {
    store: Store,
    config: RelayConfig,
    wakes: Arc<Wakes>,
    bell: Bell,
    floor: Floor,
    /// How many events are still to be fanned out one by one, because a relay may have died of one.
    suspects: i32,
    /// Whether the bell was refused at the last try, and nothing happened since.
    bell_refused: bool,
    /// How events failed in the outage that goes on, until one succeeds.
    outage: Option<Cause>,
    /// Attempts to give back to events: taken in an outage, which may have stopped us from saying
    /// so.
    refunds: Vec<i64>,
    /// When the last pass began, if it found some events and less than a batch.
    paced_since: Option<Instant>,
    /// How many fan-outs succeeded since a pass failed or failures were judged: while some do, a
    /// failure is the event's own.
    succeeded: usize,
    last_help: Instant,
}

impl Relay {
    pub(crate) fn new(
        store: Store,
        config: RelayConfig,
        wakes: Arc<Wakes>,
        database: Database,
        on_duty: Arc<AtomicBool>,
    ) -> Self {
        let bell = Bell::new(database, &store.schema, on_duty);
        let last_help = Instant::now();
        Self {
            store,
            config,
            wakes,
            bell,
            floor: Floor::default(),
            suspects: 0,
            bell_refused: false,
            outage: None,
            refunds: Vec::new(),
            paced_since: None,
            succeeded: 0,
            last_help,
        }
    }

    /// Runs until `stop` turns true; a transaction under way is finished first. `lease` is how long
    /// sessions live.
    pub(crate) async fn run(
        mut self,
        session: Uuid,
        lease: Duration,
        mut stop: watch::Receiver<bool>,
    ) {
        if self.others_may_have_died(session, lease).await.unwrap_or(true) {
            self.suspects = self.config.batch_max;
        }
        let mut backoff = BACKOFF_MIN;
        while !*stop.borrow() {
            match self.look(&stop).await {
                Ok(true) => {
                    backoff = BACKOFF_MIN;
                    self.wakes.vitals.well(Part::Relay);
                }
                Ok(false) => {
                    backoff = BACKOFF_MIN;
                    self.wakes.vitals.well(Part::Relay);
                    tokio::select! {
                        () = self.rest() => {}
                        _ = stop.wait_for(|stop| *stop) => {}
                    }
                }
                Err(error) => {
                    let wait = jittered(backoff);
                    tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        wait_ms = wait.as_millis(),
                        "a relay pass failed"
                    );
                    self.wakes.vitals.ill(Part::Relay, super::chain(&error));
                    if error.is_of_the_server() {
                        // The locks may be on a server that is no longer the one.
                        self.bell.forget();
                    }
                    self.bell.leave().await;
                    self.floor.forget();
                    self.succeeded = 0;
                    tokio::select! {
                        () = tokio::time::sleep(wait) => {}
                        () = self.wakes.listening_again() => {}
                        _ = stop.wait_for(|stop| *stop) => {}
                    }
                    backoff = (backoff * 2).min(BACKOFF_MAX);
                    self.suspects = self.suspects.max(self.config.batch_max);
                }
            }
        }
        self.bell.forget();
    }

    /// Whether another relay may have died lately, perhaps of an event that is next in line.
    async fn others_may_have_died(&self, session: Uuid, lease: Duration) -> Result<bool, Error> {
        let (died, neighbours) = self.store.other_relays(session, lease).await?;
        Ok(died || neighbours::may_have_died(&neighbours))
    }

    /// Fans out what is owed, then the failures whose turn it is. Returns whether more is owed:
    /// under a load that never ends, failures get their turn and a stop is noticed all the same.
    async fn look(&mut self, stop: &watch::Receiver<bool>) -> Result<bool, Error> {
        self.give_back().await?;
        while self.suspects > 0 && !*stop.borrow() {
            self.try_suspects(stop).await?;
        }
        let until = Instant::now() + LOOK_MAX;
        let mut more = true;
        while more && Instant::now() < until && !*stop.borrow() {
            self.keep_pace().await;
            more = self.pass().await? > 0;
            // Awake: whoever records from now on need not ring. After the pass, not before it, so
            // that the event that woke us is not kept waiting.
            self.bell.leave().await;
        }
        self.try_failures(stop).await?;
        Ok(more)
    }

    /// Lets more events come together after a pass that found few.
    async fn keep_pace(&mut self) {
        if let Some(since) = self.paced_since.take() {
            tokio::time::sleep_until(since + PACE).await;
        }
    }

    /// One batch. Returns how many events it fanned out.
    async fn pass(&mut self) -> Result<i64, Error> {
        let bound = self.floor.bound();
        let started = Instant::now();
        let mut fanned = self.fan_out(bound).await?;
        if !fanned.undeclared.is_empty() {
            self.declare_unknown(std::mem::take(&mut fanned.undeclared)).await?;
            fanned = self.fan_out(bound).await?;
        }
        self.floor.passed(fanned.last_seq, started.elapsed());
        if fanned.events > 0 {
            // Before anything else is asked of the database: somebody waits for the jobs.
            self.wakes.fanned();
        }
        self.floor.advance(&self.store).await?;
        let is_full = fanned.events >= i64::from(self.config.batch_max);
        self.paced_since = (fanned.events > 0 && !is_full).then_some(started);
        if fanned.events > 0 {
            self.succeeded += 1;
            self.bell_refused = false;
            tracing::debug!(events = fanned.events, jobs = fanned.jobs, "fanned out");
            if is_full {
                self.ask_for_help().await?;
            }
        }
        if fanned.filter_failed {
            tracing::warn!(
                "the filter of a subscription failed; see `postrider subscriptions list`"
            );
        }
        // Nothing above the hint says nothing about what lies below it: take the full look now.
        if fanned.events == 0 && self.floor.is_hinted() {
            self.floor.drop_hint();
            return Box::pin(self.pass()).await;
        }
        Ok(fanned.events)
    }

    /// Fans a batch out, starting jobs in the worker of this process when that waits for some.
    async fn fan_out(&self, bound: i64) -> Result<Fanned, Error> {
        let Some(offer) = self.wakes.handover.offer() else {
            return self.store.fan_out_batch(bound, self.config.batch_max).await;
        };
        // Without a good answer nobody knows what was committed: dropped, the offer tells.
        let (fanned, started) = self
            .store
            .fan_out_and_start(
                (bound, self.config.batch_max),
                offer.session,
                (&offer.subscriptions, offer.most),
            )
            .await?;
        offer.hand_over(started);
        Ok(fanned)
    }

    /// Declares types on first sight, before their events are claimed.
    async fn declare_unknown(&self, unknown: Vec<String>) -> Result<(), Error> {
        let types: Vec<EventType> =
            unknown.into_iter().map(EventType::new).collect::<Result<_, _>>()?;
        tracing::info!(count = types.len(), "declared types on first sight");
        self.store.declare(&types, &[], None).await?;
        Ok(())
    }

    /// Tells the relays that are off duty that there is more than one can do.
    async fn ask_for_help(&mut self) -> Result<(), Error> {
        if self.last_help.elapsed() < HELP_EVERY || !self.config.uses_sessions {
            return Ok(());
        }
        self.last_help = Instant::now();
        self.store.ring("help").await
    }

    /// Waits for the next reason to look. May be dropped at any point: the bell is then let go by
    /// the next look.
    async fn rest(&mut self) {
        self.bell.leave().await;
        let sweep = jittered(self.config.sweep);
        if !self.config.uses_sessions {
            tokio::time::sleep(sweep).await;
            return;
        }
        // Locks are for connections that keep their session, as one that hears does.
        if !self.wakes.is_listening() || !self.bell.is_on_duty().await {
            let _ = tokio::time::timeout(sweep, self.wakes.relay.notified()).await;
            return;
        }
        // With a silent writer open for long, one look for each try is enough.
        if !self.bell_refused && !self.linger().await {
            return;
        }
        match self.bell.take().await {
            Ok(true) => {
                self.bell_refused = false;
                self.sleep_on_bell(sweep).await;
            }
            // A silent writer is open. Whoever rang meanwhile left a permit with the wake-up.
            Ok(false) => {
                self.bell_refused = true;
                let _ = tokio::time::timeout(BELL_AGAIN, self.wakes.relay.notified()).await;
            }
            Err(error) => tracing::debug!(%error, "could not take the bell"),
        }
    }

    /// Stays awake a little. Returns whether it stayed quiet.
    async fn linger(&mut self) -> bool {
        let until = Instant::now() + LINGER;
        while Instant::now() < until {
            let woken = tokio::time::timeout(PACE, self.wakes.relay.notified()).await.is_ok();
            if woken || !self.is_quiet().await {
                return false;
            }
        }
        true
    }

    /// Looks once. Returns whether nothing was owed; a look that failed is taken again by the
    /// caller of [`Relay::rest`], with nothing taken for granted.
    async fn is_quiet(&mut self) -> bool {
        match self.pass().await {
            Ok(fanned) => fanned == 0,
            Err(error) => {
                tracing::debug!(%error, "a look before sleep failed");
                self.floor.forget();
                false
            }
        }
    }

    /// The bell is held: one last full look, then sleep until rung or until the sweep.
    async fn sleep_on_bell(&mut self, sweep: Duration) {
        self.floor.drop_hint();
        if self.is_quiet().await && self.wakes.is_listening() {
            let _ = tokio::time::timeout(sweep, self.wakes.relay.notified()).await;
        }
    }
}

/// Moves a wait by up to ten percent, so that processes that wait alike do not act alike.
pub(crate) fn jittered(wait: Duration) -> Duration {
    wait.mul_f64(1.0 + 0.1 * super::chance())
}
