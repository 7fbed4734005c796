//! The bounds below which the relay need not look.
//!
//! While some session keeps an old snapshot, the index entries of fanned-out marks cannot be
//! removed, and a claim from the beginning would walk over all of them. Two bounds help:
//!
//! * the floor is exact: it moves up to a sequence number only once every transaction that could
//!   still commit below it has ended, and never past an owed event that is visible;
//! * the hint runs ahead of it to the largest number claimed. It may skip an event that commits
//!   late, so it is dropped for a full look soon after: within ten times what the last full look
//!   took, at least 20 ms and at most 10 s. Under a steady load each pass finds
//!   something, so nothing else ends the hint: an event that commits late waits for this look.
//!
//! How it fails: it does not; whatever the bounds are, a full look follows. Invariant: `record`
//! takes its transaction id before it draws its sequence number, so a writer that drew a number up
//! to `newest` has an id below the one that is handed out next after `newest` was read.

use std::time::Duration;

use tokio::time::Instant;

use crate::Error;
use crate::store::{FloorLook, Store};

/// How often the floor is moved up, at most.
const ADVANCE_EVERY: Duration = Duration::from_millis(200);
/// The bounds of the time between two full looks.
const FULL_LOOK_MIN: Duration = Duration::from_millis(20);
const FULL_LOOK_MAX: Duration = Duration::from_secs(10);

/// The floor, the hint above it, and the candidate that the floor waits for.
#[derive(Debug)]
pub(super) struct Floor {
    floor: i64,
    hint: Option<i64>,
    candidate: Option<Candidate>,
    last_advance: Instant,
    last_full_look: Instant,
    full_look_took: Duration,
}

/// A sequence number up to which the floor may move once `ends_before` is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Candidate {
    newest: i64,
    ends_before: i64,
}

impl Default for Floor {
    fn default() -> Self {
        let now = Instant::now();
        Self {
            floor: 0,
            hint: None,
            candidate: None,
            last_advance: now,
            last_full_look: now,
            full_look_took: Duration::ZERO,
        }
    }
}

impl Floor {
    /// The bound for the next claim: the hint, unless a full look is due.
    pub(super) fn bound(&mut self) -> i64 {
        if self.hint.is_some() && self.last_full_look.elapsed() >= self.full_look_due() {
            self.hint = None;
        }
        self.hint.unwrap_or(self.floor)
    }

    /// Whether the last claim looked only above the hint.
    pub(super) fn is_hinted(&self) -> bool {
        self.hint.is_some()
    }

    /// Makes the next claim a full look.
    pub(super) fn drop_hint(&mut self) {
        self.hint = None;
    }

    /// Forgets everything: after a reconnect nothing known before need hold.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }

    /// Takes note of a claim that took `took` and whose largest number was `last_seq`.
    pub(super) fn passed(&mut self, last_seq: Option<i64>, took: Duration) {
        if self.hint.is_none() {
            self.last_full_look = Instant::now();
            self.full_look_took = took;
        }
        if let Some(last_seq) = last_seq {
            self.hint = Some(self.hint.map_or(last_seq, |hint| hint.max(last_seq)));
        }
    }

    /// Moves the floor up when its time has come.
    pub(super) async fn advance(&mut self, store: &Store) -> Result<(), Error> {
        if self.last_advance.elapsed() < ADVANCE_EVERY {
            return Ok(());
        }
        self.last_advance = Instant::now();
        let Some(candidate) = self.candidate else {
            let newest = store.newest_seq().await?;
            if newest < self.floor {
                // The server's history is another one: a failover or a restore lost numbers that
                // were drawn, and they are drawn again.
                self.forget();
                return Ok(());
            }
            if newest == self.floor {
                return Ok(());
            }
            let look = store.floor_look(self.floor).await?;
            self.candidate = Some(Candidate { newest, ends_before: look.next_id });
            return Ok(());
        };
        let look = store.floor_look(self.floor).await?;
        if let Some(floor) = settled_floor(candidate, look) {
            self.floor = self.floor.max(floor);
            self.candidate = None;
        }
        Ok(())
    }

    fn full_look_due(&self) -> Duration {
        (self.full_look_took * 10).clamp(FULL_LOOK_MIN, FULL_LOOK_MAX)
    }
}

/// Where the floor may move, or `None` while a transaction that may commit below it still runs.
fn settled_floor(candidate: Candidate, look: FloorLook) -> Option<i64> {
    if look.oldest_id < candidate.ends_before {
        return None;
    }
    Some(look.oldest_owed.map_or(candidate.newest, |owed| candidate.newest.min(owed - 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(oldest_id: i64, oldest_owed: Option<i64>) -> FloorLook {
        FloorLook { next_id: 1000, oldest_id, oldest_owed }
    }

    #[test]
    fn the_floor_waits_for_every_transaction_that_could_commit_below_it() {
        let candidate = Candidate { newest: 50, ends_before: 900 };
        assert_eq!(settled_floor(candidate, look(899, None)), None);
        assert_eq!(settled_floor(candidate, look(900, None)), Some(50));
    }

    #[test]
    fn the_floor_never_passes_an_owed_event() {
        let candidate = Candidate { newest: 50, ends_before: 900 };
        assert_eq!(settled_floor(candidate, look(950, Some(20))), Some(19));
        assert_eq!(settled_floor(candidate, look(950, Some(80))), Some(50));
    }

    #[tokio::test(start_paused = true)]
    async fn a_hint_is_dropped_for_a_full_look_in_time() {
        let mut floor = Floor::default();
        floor.passed(Some(7), Duration::from_millis(1));
        assert_eq!(floor.bound(), 7);
        tokio::time::advance(FULL_LOOK_MIN).await;
        assert_eq!(floor.bound(), 0);
        floor.passed(Some(9), Duration::from_secs(60));
        tokio::time::advance(FULL_LOOK_MAX - Duration::from_millis(1)).await;
        assert_eq!(floor.bound(), 9, "a slow full look is not repeated at once");
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(floor.bound(), 0);
    }
}
