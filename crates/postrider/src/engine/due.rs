//! The bounds below which the worker need not look for due jobs.
//!
//! While some session keeps an old snapshot, the index entries of finished jobs cannot be removed,
//! and a claim from the beginning would walk over all of them. A claim takes the job that has been
//! due longest, so at its priority nothing that waits was due before: the next claims look from
//! there on, less a little for fan-outs that commit out of turn.
//!
//! How it fails: a bound may hide a job that was committed late or resumed, so a full look follows
//! within ten times what the last one took, at least 50 ms and at most 10 s. Invariant: a claim
//! that finds nothing under a bound is no reason to rest for longer than until the next full look.

use std::time::Duration;

use time::OffsetDateTime;
use tokio::time::Instant;

/// Priorities are numbered from 1 to this.
const PRIORITIES: usize = 4;
/// How far a fan-out may commit out of turn without waiting for a full look: as long as one takes
/// on a busy server.
const SLACK: Duration = Duration::from_millis(25);
/// The bounds of the time between two full looks.
const FULL_LOOK_MIN: Duration = Duration::from_millis(50);
const FULL_LOOK_MAX: Duration = Duration::from_secs(10);

/// From when on a claim looks, for each priority; the epoch means from the beginning.
pub(crate) type Since = [OffsetDateTime; PRIORITIES];

/// From the beginning at every priority.
pub(crate) const FROM_THE_BEGINNING: Since = [OffsetDateTime::UNIX_EPOCH; PRIORITIES];

/// The bounds of one queue.
#[derive(Debug)]
pub(crate) struct Bounds {
    from: Since,
    full_look: Option<FullLook>,
}

/// When the last full look ended and how long it took.
#[derive(Debug, Clone, Copy)]
struct FullLook {
    at: Instant,
    took: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { from: FROM_THE_BEGINNING, full_look: None }
    }
}

impl Bounds {
    /// From when on the next claim looks.
    pub(crate) fn next(&self) -> Since {
        if self.until_full_look().is_zero() { FROM_THE_BEGINNING } else { self.from }
    }

    /// How long a claim may look under the bounds before a full look is due.
    pub(crate) fn until_full_look(&self) -> Duration {
        let Some(last) = self.full_look else { return Duration::ZERO };
        let due = (last.took * 10).clamp(FULL_LOOK_MIN, FULL_LOOK_MAX);
        due.saturating_sub(last.at.elapsed())
    }

    /// Takes note of a claim that looked from `from` on, took `took`, and whose first job was due
    /// at `head` with a priority; `None` when it claimed nothing.
    pub(crate) fn looked(
        &mut self,
        from: Since,
        took: Duration,
        head: Option<(i16, OffsetDateTime)>,
    ) {
        let was_full = from == FROM_THE_BEGINNING;
        if was_full {
            self.full_look = Some(FullLook { at: Instant::now(), took });
        }
        let Some((priority, due_at)) = head else { return };
        let index = usize::try_from(priority).unwrap_or(0).wrapping_sub(1);
        let Some(bound) = self.from.get_mut(index) else { return };
        let reached = due_at - SLACK;
        // What a full look finds below the bound is still to be claimed, with all that follows it.
        *bound = if was_full { reached } else { reached.max(*bound) };
    }

    /// Whether a claim that found nothing looked everywhere.
    pub(crate) fn was_everywhere(from: &Since) -> bool {
        *from == FROM_THE_BEGINNING
    }

    /// Forgets everything: after an error nothing known before need hold.
    pub(crate) fn forget(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: i64) -> OffsetDateTime {
        OffsetDateTime::UNIX_EPOCH + time::Duration::days(20_000) + time::Duration::milliseconds(ms)
    }

    #[tokio::test(start_paused = true)]
    async fn claims_look_from_the_job_due_longest_until_a_full_look_is_due() {
        let mut bounds = Bounds::default();
        assert_eq!(bounds.next(), FROM_THE_BEGINNING);
        bounds.looked(FROM_THE_BEGINNING, Duration::from_millis(30), Some((2, at(500))));
        let mut expected = FROM_THE_BEGINNING;
        expected[1] = at(475);
        assert_eq!(bounds.next(), expected, "other priorities are looked at as a whole");
        bounds.looked(expected, Duration::from_secs(9), Some((2, at(900))));
        assert_eq!(bounds.next()[1], at(875));
        bounds.looked(bounds.next(), Duration::ZERO, Some((2, at(880))));
        assert_eq!(bounds.next()[1], at(875), "a bound does not go back by itself");
        tokio::time::advance(Duration::from_millis(300)).await;
        assert_eq!(bounds.next(), FROM_THE_BEGINNING, "ten times what the full look took");
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_full_look_finds_below_the_bound_takes_the_bound_back() {
        let mut bounds = Bounds::default();
        bounds.looked(FROM_THE_BEGINNING, Duration::from_millis(30), Some((1, at(9000))));
        bounds.looked(FROM_THE_BEGINNING, Duration::from_millis(30), Some((1, at(1000))));
        assert_eq!(bounds.next()[0], at(975));
        bounds.forget();
        assert_eq!(bounds.next(), FROM_THE_BEGINNING);
    }

    #[tokio::test(start_paused = true)]
    async fn full_looks_are_at_least_50_ms_and_at_most_10_s_apart() {
        let mut bounds = Bounds::default();
        for (took, apart) in [(Duration::ZERO, FULL_LOOK_MIN), (FULL_LOOK_MAX, FULL_LOOK_MAX)] {
            bounds.looked(FROM_THE_BEGINNING, took, Some((4, at(0))));
            assert_eq!(bounds.until_full_look(), apart);
        }
    }
}
