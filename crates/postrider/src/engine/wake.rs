//! How the tasks of one process wake each other, and what they say of themselves.
//!
//! How it fails: it does not; a wake-up that comes too early is kept, one that is lost is made up
//! for by the sweep. Invariant: a notification is a hint and carries no data.

use std::sync::Arc;

use tokio::sync::{Notify, watch};

use super::handover::Handover;
use super::health::Vitals;

/// The wake-ups of one engine.
#[derive(Debug)]
pub(crate) struct Wakes {
    /// Something may be owed.
    pub(crate) relay: Notify,
    /// Something may be due.
    pub(crate) work: Notify,
    /// Counts the fan-outs that this process heard of; waiting callers look again at each.
    fanned: watch::Sender<u64>,
    /// Counts the settles of this process.
    settled: watch::Sender<u64>,
    /// Whether what is said is heard on the listening connection.
    listening: watch::Sender<bool>,
    /// Where a fan-out leaves the jobs that it started here.
    pub(crate) handover: Arc<Handover>,
    /// How each of them fares.
    pub(crate) vitals: Vitals,
}

impl Wakes {
    pub(crate) fn new() -> Self {
        Self {
            relay: Notify::new(),
            work: Notify::new(),
            fanned: watch::Sender::new(0),
            settled: watch::Sender::new(0),
            listening: watch::Sender::new(false),
            handover: Arc::default(),
            vitals: Vitals::default(),
        }
    }

    /// A fan-out was committed somewhere.
    pub(crate) fn fanned(&self) {
        self.fanned.send_modify(|count| *count = count.wrapping_add(1));
        self.work.notify_one();
    }

    /// Jobs were settled here.
    pub(crate) fn settled(&self) {
        self.settled.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Everything may have changed: look at all of it.
    pub(crate) fn everything(&self) {
        self.relay.notify_one();
        self.fanned();
        self.settled();
    }

    /// Told of every fan-out from now on.
    pub(crate) fn on_fanned(&self) -> watch::Receiver<u64> {
        self.fanned.subscribe()
    }

    /// Told of every settle from now on.
    pub(crate) fn on_settled(&self) -> watch::Receiver<u64> {
        self.settled.subscribe()
    }

    /// Ready when the listening connection, which is down, is up again: the database is back.
    pub(crate) async fn listening_again(&self) {
        let mut listening = self.listening.subscribe();
        if *listening.borrow_and_update() {
            return std::future::pending().await;
        }
        // The sender lives as long as this.
        let _ = listening.wait_for(|listening| *listening).await;
    }

    /// Notes whether the listening connection is up.
    pub(crate) fn set_listening(&self, listening: bool) {
        self.listening.send_replace(listening);
    }

    /// Whether the listening connection is up.
    pub(crate) fn is_listening(&self) -> bool {
        *self.listening.borrow()
    }
}

/// The word of a notification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Word {
    /// An event was recorded while a relay slept.
    Owed,
    /// A job was enqueued while a relay slept.
    Enqueued,
    /// Jobs may have been enqueued in silence while the relay on duty was awake.
    Due,
    /// A relay committed a fan-out.
    Fanned,
    /// The relay on duty has more than it can do.
    Help,
    /// Types, subscriptions or routes changed, or a person put an event back.
    Changed,
    /// A process asks whether it hears: who hears this does.
    Hello,
}

impl Word {
    /// Reads a payload; words of newer versions are nobody's business.
    pub(crate) fn parse(payload: &str) -> Option<Self> {
        match payload {
            "owed" => Some(Self::Owed),
            "enqueued" => Some(Self::Enqueued),
            "due" => Some(Self::Due),
            "fanned" => Some(Self::Fanned),
            "help" => Some(Self::Help),
            "changed" => Some(Self::Changed),
            "hello" => Some(Self::Hello),
            _ => None,
        }
    }
}
