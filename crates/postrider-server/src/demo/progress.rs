//! What the parts of the demo tell each other: how many events are committed, and what is over.
//!
//! How it fails: it does not. Invariant: `reserved` counts events that are committed or in an open
//! transaction, and never exceeds the wanted number.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// Shared by producers, chaos and view.
#[derive(Debug)]
pub(super) struct Progress {
    /// How many events are to be recorded.
    pub(super) wanted: i64,
    /// How many a second are begun at most.
    rate: f64,
    started: Instant,
    reserved: AtomicI64,
    /// All that were ever reserved, those of rolled-back transactions twice: paces the producers.
    begun: AtomicI64,
    recorded: AtomicI64,
    transactions: AtomicU64,
    next_order: AtomicI64,
    idle: AtomicBool,
}

impl Progress {
    /// Nothing recorded yet.
    pub(super) fn new(wanted: i64, rate: f64) -> Self {
        Self {
            wanted,
            rate,
            started: Instant::now(),
            reserved: AtomicI64::new(0),
            begun: AtomicI64::new(0),
            recorded: AtomicI64::new(0),
            transactions: AtomicU64::new(0),
            next_order: AtomicI64::new(1),
            idle: AtomicBool::new(false),
        }
    }

    /// Reserves up to `most` events for a transaction and says when it may begin. 0 events: as many
    /// as are wanted are committed or on their way.
    pub(super) fn reserve(&self, most: i64) -> (i64, Instant) {
        let take = |reserved: i64| {
            let free = (self.wanted - reserved).min(most);
            (free > 0).then_some(reserved + free)
        };
        let before = self.reserved.fetch_update(Ordering::AcqRel, Ordering::Acquire, take);
        let events = before.map_or(0, |reserved| (self.wanted - reserved).min(most));
        let begun = self.begun.fetch_add(events, Ordering::AcqRel);
        (events, self.started + Duration::from_secs_f64(begun as f64 / self.rate))
    }

    /// A transaction with `events` events was committed, or was not.
    pub(super) fn ended(&self, events: i64, committed: bool) {
        match committed {
            true => {
                self.recorded.fetch_add(events, Ordering::AcqRel);
                self.transactions.fetch_add(1, Ordering::AcqRel);
            }
            false => {
                self.reserved.fetch_sub(events, Ordering::AcqRel);
            }
        }
    }

    /// How many events were committed.
    pub(super) fn recorded(&self) -> i64 {
        self.recorded.load(Ordering::Acquire)
    }

    /// Whether as many events are committed as are wanted.
    pub(super) fn is_complete(&self) -> bool {
        self.recorded() >= self.wanted
    }

    /// Whether nothing more can begin until an open transaction ends.
    pub(super) fn is_reserved(&self) -> bool {
        self.reserved.load(Ordering::Acquire) >= self.wanted
    }

    /// How many transactions were committed.
    pub(super) fn transactions(&self) -> u64 {
        self.transactions.load(Ordering::Acquire)
    }

    /// An order number that nobody has.
    pub(super) fn new_order(&self) -> i64 {
        self.next_order.fetch_add(1, Ordering::AcqRel)
    }

    /// Whether all is recorded and handled.
    pub(super) fn is_idle(&self) -> bool {
        self.idle.load(Ordering::Acquire)
    }

    /// All is recorded and handled.
    pub(super) fn set_idle(&self) {
        self.idle.store(true, Ordering::Release);
    }

    /// How long the demo has run.
    pub(super) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_more_is_reserved_than_wanted_and_a_rollback_gives_it_back() {
        let progress = Progress::new(10, 100.0);
        assert_eq!(progress.reserve(7).0, 7);
        assert_eq!(progress.reserve(7).0, 3);
        assert_eq!(progress.reserve(7).0, 0);
        progress.ended(7, false);
        assert_eq!(progress.reserve(9).0, 7);
        progress.ended(7, true);
        progress.ended(3, true);
        assert!(progress.is_complete() && progress.is_reserved());
    }
}
