//! The states of a job, the one table of its transitions, and the words of a settle.
//!
//! How it fails: it does not. Invariant: [`JobState::may_become`] is the only place that says
//! which moves exist; the database repeats it as CHECK constraints.

use serde::{Deserialize, Serialize};

/// Where a job stands. A future time is a column (`due_at`), not a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JobState {
    /// Waits for a worker, now or from `due_at` on.
    Pending,
    /// A worker's session holds it under a lease.
    Running,
    /// Done. Final.
    Completed,
    /// Given up: permanent error, or no attempt left. Final, but a person may retry it.
    Discarded,
    /// Called off by a person, or its subscription was deleted. Final, but may be retried.
    Cancelled,
}

impl JobState {
    /// Every state, in the order of a job's life.
    pub const ALL: [Self; 5] =
        [Self::Pending, Self::Running, Self::Completed, Self::Discarded, Self::Cancelled];

    /// Whether a job may move from this state to `next`.
    ///
    /// | from | to | who |
    /// |---|---|---|
    /// | pending | running | a worker claims it |
    /// | pending | cancelled | a person, or the subscription was deleted |
    /// | pending | discarded | its filter failed, or its last attempt died with its process |
    /// | running | pending | retry, snooze, graceful stop, rescue |
    /// | running | completed, discarded, cancelled | its worker settles it |
    /// | discarded, cancelled | pending | a person retries it |
    ///
    /// ```
    /// use postrider_core::JobState::{Completed, Pending, Running};
    /// assert!(Pending.may_become(Running));
    /// assert!(!Completed.may_become(Running));
    /// ```
    #[must_use]
    pub fn may_become(self, next: Self) -> bool {
        use JobState::{Cancelled, Completed, Discarded, Pending, Running};
        matches!(
            (self, next),
            (Pending, Running | Cancelled | Discarded)
                | (Running, Pending | Completed | Discarded | Cancelled)
                | (Discarded | Cancelled, Pending)
        )
    }

    /// Whether nothing moves the job on by itself any more.
    #[must_use]
    pub fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Discarded | Self::Cancelled)
    }

    /// The word used in SQL, JSON and on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Discarded => "discarded",
            Self::Cancelled => "cancelled",
        }
    }
}

/// Why a job exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// The relay made it for an event and a subscription: at most one for each pair.
    Fanout,
    /// A replay of past events.
    Replay,
    /// A person sent a delivery again.
    Redeliver,
    /// A test event to one endpoint.
    Test,
    /// An application enqueued it.
    Enqueue,
}

/// What a settle found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Settled {
    /// The job was under the caller's lease and is settled now.
    Settled,
    /// The lease had been lost: somebody else holds the job or has settled it since. The caller's
    /// result was not taken.
    Stale,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_completed_job_never_moves_again() {
        assert!(JobState::ALL.iter().all(|next| !JobState::Completed.may_become(*next)));
    }

    #[test]
    fn only_pending_jobs_start_running() {
        for state in JobState::ALL {
            assert_eq!(state.may_become(JobState::Running), state == JobState::Pending);
        }
    }
}
