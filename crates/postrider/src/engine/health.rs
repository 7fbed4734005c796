//! How the loops of an engine are doing: which of them cannot do its work at the moment, and why.
//!
//! How it fails: it does not. Invariant: a loop that failed is in trouble until it succeeds.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use crate::Error;

/// A part of the engine that works by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Part {
    /// Turns owed events into jobs.
    Relay,
    /// Claims jobs for the handlers of this process.
    Claims,
    /// Writes the outcomes of handlers down.
    Settles,
    /// Renews the lease of this process. Without it, its jobs go to others.
    Lease,
    /// Takes jobs of dead processes back.
    Rescue,
    /// Makes partitions and drops what is over its retention.
    Housekeeping,
    /// Hears of new events. Without it they are found by looking.
    Listener,
}

impl Part {
    /// Its name: `relay`, `claims`, `settles`, `lease`, `rescue`, `housekeeping`, `listener`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Relay => "relay",
            Self::Claims => "claims",
            Self::Settles => "settles",
            Self::Lease => "lease",
            Self::Rescue => "rescue",
            Self::Housekeeping => "housekeeping",
            Self::Listener => "listener",
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A part that cannot do its work at the moment. It goes on trying.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// Which part it is.
    pub part: Part,
    /// Since when it has failed without a success, by the clock of this process.
    pub since: SystemTime,
    /// What went wrong last.
    pub error: String,
}

/// How an engine is doing, from [`crate::Handle::health`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Health {
    /// The parts that cannot do their work at the moment; empty when all is well.
    pub troubles: Vec<Trouble>,
}

impl Health {
    /// Whether every part does its work.
    ///
    /// ```
    /// assert!(postrider::Health::default().is_well());
    /// ```
    #[must_use]
    pub fn is_well(&self) -> bool {
        self.troubles.is_empty()
    }

    /// Whether a part cannot do its work at the moment.
    #[must_use]
    pub fn is_in_trouble(&self, part: Part) -> bool {
        self.troubles.iter().any(|trouble| trouble.part == part)
    }
}

/// What the loops of one engine say about themselves.
#[derive(Debug, Clone, Default)]
pub(crate) struct Vitals(Arc<Mutex<BTreeMap<Part, Trouble>>>);

impl Vitals {
    /// Takes note of how a part fared.
    pub(crate) fn note<T>(&self, part: Part, outcome: &Result<T, Error>) {
        match outcome {
            Ok(_) => self.well(part),
            Err(error) => self.ill(part, super::chain(error)),
        }
    }

    /// The part did its work.
    pub(crate) fn well(&self, part: Part) {
        if self.lock().remove(&part).is_some() {
            tracing::info!(part = part.as_str(), "at work again");
        }
    }

    /// The part could not do its work.
    pub(crate) fn ill(&self, part: Part, error: String) {
        let mut troubles = self.lock();
        let since = troubles.get(&part).map_or_else(SystemTime::now, |known| known.since);
        troubles.insert(part, Trouble { part, since, error });
    }

    pub(crate) fn look(&self) -> Health {
        Health { troubles: self.lock().values().cloned().collect() }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<Part, Trouble>> {
        // A map of texts is whole whoever panicked beside it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trouble_lasts_from_the_first_failure_to_the_next_success_and_tells_the_last_error() {
        let vitals = Vitals::default();
        assert!(vitals.look().is_well());
        vitals.ill(Part::Relay, "one".into());
        let first = vitals.look().troubles;
        vitals.ill(Part::Relay, "two".into());
        let second = vitals.look();
        assert_eq!((second.troubles[0].since, second.troubles.len()), (first[0].since, 1));
        assert_eq!(second.troubles[0].error, "two");
        assert!(second.is_in_trouble(Part::Relay) && !second.is_in_trouble(Part::Lease));
        vitals.well(Part::Relay);
        assert!(vitals.look().is_well());
    }
}
