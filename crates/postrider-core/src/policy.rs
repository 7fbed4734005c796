//! The policy of a subscription or job kind: data, so that people can read and change it.
//!
//! How it fails: [`Invalid`] for a value out of range. Invariant: a checked policy always ends,
//! by its attempts and its timeout.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Backoff, Invalid};

/// Which of two due jobs of one queue goes first.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Priority {
    /// Before everything else.
    High,
    /// The default.
    #[default]
    Normal,
    /// After what is normal.
    Low,
    /// When nothing else is due.
    Bulk,
}

impl Priority {
    /// The number stored with the job: 1 goes first, 4 last.
    #[must_use]
    pub fn number(self) -> i16 {
        match self {
            Self::High => 1,
            Self::Normal => 2,
            Self::Low => 3,
            Self::Bulk => 4,
        }
    }

    /// The word used in SQL, JSON and on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::High => "high",
            Self::Normal => "normal",
            Self::Low => "low",
            Self::Bulk => "bulk",
        }
    }
}

impl std::str::FromStr for Priority {
    type Err = Invalid;

    fn from_str(word: &str) -> Result<Self, Invalid> {
        let all = [Self::High, Self::Normal, Self::Low, Self::Bulk];
        all.into_iter().find(|priority| priority.as_str() == word).ok_or_else(|| {
            Invalid::new("priority", format!("`{word}` is none of high, normal, low, bulk"))
        })
    }
}

/// How the jobs of a subscription are run.
///
/// ```
/// use std::time::Duration;
/// use postrider_core::Policy;
/// let policy = Policy { max_attempts: 5, timeout_ms: 2_000, ..Policy::default() };
/// assert!(policy.check().is_ok());
/// assert_eq!(policy.timeout(), Duration::from_secs(2));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Policy {
    /// The queue whose limit the jobs share. Defaults to `default`.
    pub queue: String,
    /// How often a job is tried before it is discarded, 1 to 1,000. Defaults to 20.
    pub max_attempts: i32,
    /// The waits between attempts. Defaults to 2 seconds doubling to 6 hours.
    pub backoff: Backoff,
    /// How long one attempt may take, in milliseconds, 1 to 24 hours. Defaults to 60 seconds.
    pub timeout_ms: i64,
    /// Which due job goes first. Defaults to normal.
    pub priority: Priority,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            queue: "default".into(),
            max_attempts: 20,
            backoff: Backoff::default(),
            timeout_ms: 60_000,
            priority: Priority::default(),
        }
    }
}

impl Policy {
    /// Checks the ranges.
    ///
    /// # Errors
    /// [`Invalid`] for the first value out of range.
    pub fn check(&self) -> Result<(), Invalid> {
        crate::subscription::check_name("queue", &self.queue)?;
        if !(1..=1000).contains(&self.max_attempts) {
            return Err(Invalid::new("max_attempts", "is out of range; 1 to 1,000 are possible"));
        }
        if !(1..=86_400_000).contains(&self.timeout_ms) {
            let problem = "is out of range; 1 millisecond to 24 hours are possible";
            return Err(Invalid::new("timeout_ms", problem));
        }
        self.backoff.check()
    }

    /// How long one attempt may take.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        Duration::from_millis(u64::try_from(self.timeout_ms).unwrap_or(1))
    }
}
