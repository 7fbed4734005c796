//! How long a job waits before it is tried again.
//!
//! How it fails: [`Invalid`] for a policy that makes no sense. Invariant: the delay is at least
//! one millisecond and at most the cap plus ten percent, for every attempt number up to `i32::MAX`.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Invalid;

/// The longest delay a policy may name: 30 days.
const DELAY_MAX_MS: u64 = 30 * 24 * 60 * 60 * 1000;

/// The part by which a delay is moved at random, up or down, so that jobs that failed together do
/// not come back together.
const JITTER: f64 = 0.1;

/// The waits between the attempts of a job.
///
/// ```
/// use std::time::Duration;
/// use postrider_core::Backoff;
/// let backoff = Backoff::exponential(Duration::from_secs(1), Duration::from_secs(60))?;
/// assert_eq!(backoff.delay(1, 0.0), Duration::from_secs(1));
/// assert_eq!(backoff.delay(4, 0.0), Duration::from_secs(8));
/// assert_eq!(backoff.delay(i32::MAX, 0.0), Duration::from_secs(60));
/// # Ok::<(), postrider_core::Invalid>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Backoff {
    /// Doubles from `base_ms` after the first failure up to `max_ms`.
    Exponential {
        /// The wait after the first failure, in milliseconds, 1 or more.
        base_ms: u64,
        /// The longest wait, in milliseconds, `base_ms` to 30 days.
        max_ms: u64,
    },
    /// A fixed list; past its end the last wait repeats.
    List {
        /// The waits in milliseconds, each 1 to 30 days; 1 to 100 of them.
        delays_ms: Vec<u64>,
    },
}

impl Default for Backoff {
    /// Doubles from 2 seconds to 6 hours: twenty attempts then span about two days.
    fn default() -> Self {
        Self::Exponential { base_ms: 2_000, max_ms: 6 * 60 * 60 * 1000 }
    }
}

impl Backoff {
    /// Doubles from `base` up to `max`.
    ///
    /// # Errors
    /// [`Invalid`] when `base` is under a millisecond, `max` is below `base` or over 30 days.
    pub fn exponential(base: Duration, max: Duration) -> Result<Self, Invalid> {
        let backoff = Self::Exponential { base_ms: millis(base), max_ms: millis(max) };
        backoff.check()?;
        Ok(backoff)
    }

    /// Waits as the list says; past its end the last wait repeats.
    ///
    /// # Errors
    /// [`Invalid`] when the list is empty, longer than 100, or holds a wait under a millisecond or
    /// over 30 days.
    pub fn list(delays: impl IntoIterator<Item = Duration>) -> Result<Self, Invalid> {
        let backoff = Self::List { delays_ms: delays.into_iter().map(millis).collect() };
        backoff.check()?;
        Ok(backoff)
    }

    /// Checks a policy that came from outside.
    ///
    /// # Errors
    /// As [`Backoff::exponential`] and [`Backoff::list`].
    pub fn check(&self) -> Result<(), Invalid> {
        let in_range = |ms: &u64| (1..=DELAY_MAX_MS).contains(ms);
        let problem = match self {
            Self::Exponential { base_ms, max_ms } if !in_range(base_ms) || !in_range(max_ms) => {
                "waits are 1 millisecond to 30 days"
            }
            Self::Exponential { base_ms, max_ms } if max_ms < base_ms => {
                "the longest wait is below the first"
            }
            Self::List { delays_ms } if delays_ms.is_empty() || delays_ms.len() > 100 => {
                "a list has 1 to 100 waits"
            }
            Self::List { delays_ms } if !delays_ms.iter().all(in_range) => {
                "waits are 1 millisecond to 30 days"
            }
            _ => return Ok(()),
        };
        Err(Invalid::new("backoff", problem))
    }

    /// The wait after failed attempt number `attempt` (1 is the first).
    ///
    /// `chance` in −1.0 to 1.0 moves it by up to ten percent; the caller draws it, so that this
    /// stays a pure function. Values outside are clamped.
    #[must_use]
    pub fn delay(&self, attempt: i32, chance: f64) -> Duration {
        let failures = u32::try_from(attempt.max(1)).unwrap_or(1) - 1;
        let plain_ms = match self {
            Self::Exponential { base_ms, max_ms } => {
                let factor = 1_u64.checked_shl(failures).unwrap_or(u64::MAX);
                base_ms.saturating_mul(factor).min(*max_ms)
            }
            Self::List { delays_ms } => {
                let index = usize::try_from(failures).unwrap_or(usize::MAX);
                delays_ms.get(index).or(delays_ms.last()).copied().unwrap_or(DELAY_MAX_MS)
            }
        };
        let chance = if chance.is_finite() { chance.clamp(-1.0, 1.0) } else { 0.0 };
        let plain = Duration::from_millis(plain_ms.clamp(1, DELAY_MAX_MS));
        plain.mul_f64(1.0 + JITTER * chance).max(Duration::from_millis(1))
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn senseless_policies_are_refused() {
        let second = Duration::from_secs(1);
        assert!(Backoff::exponential(Duration::ZERO, second).is_err());
        assert!(Backoff::exponential(second, Duration::from_millis(1)).is_err());
        assert!(Backoff::exponential(second, Duration::MAX).is_err());
        assert!(Backoff::list([]).is_err());
        assert!(Backoff::list([second, Duration::ZERO]).is_err());
        assert!(Backoff::list(vec![second; 101]).is_err());
    }

    #[test]
    fn past_the_end_of_a_list_the_last_wait_repeats() {
        let list = Backoff::list([Duration::from_secs(5), Duration::from_secs(300)]).expect("ok");
        assert_eq!(list.delay(1, 0.0).as_secs(), 5);
        assert_eq!(list.delay(2, 0.0).as_secs(), 300);
        assert_eq!(list.delay(99, 0.0).as_secs(), 300);
    }

    proptest! {
        #[test]
        fn a_delay_is_positive_and_within_ten_percent_of_the_cap(
            base_ms in 1_u64..=DELAY_MAX_MS,
            more in 0_u64..=DELAY_MAX_MS,
            attempt in any::<i32>(),
            chance in any::<f64>(),
        ) {
            let max_ms = (base_ms + more).min(DELAY_MAX_MS);
            let backoff = Backoff::Exponential { base_ms, max_ms };
            let delay = backoff.delay(attempt, chance);
            prop_assert!(delay >= Duration::from_millis(1));
            prop_assert!(delay <= Duration::from_millis(max_ms).mul_f64(1.1001));
        }
    }
}
