//! Waiting for something that happens soon.
//!
//! Tests do not sleep for a guessed time: a guess is too long on a good day and too short on a bad
//! one. They say what they wait for, look again and again, and report what is missing.

use std::panic::Location;
use std::pin::pin;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout_at};

/// The first pause between two looks. Most things have happened by then.
const FIRST_PAUSE: Duration = Duration::from_millis(5);

/// The longest pause, so that looking does not itself load a machine with two cores.
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// Calls `check` until it returns `Ok`, and returns what is in it.
///
/// `what` is a sentence for the message, such as "all events are delivered". `check` returns `Err`
/// with what is missing at the moment, such as "17 of 20 are delivered". The pause between two
/// calls grows from 5 to 100 ms. A check which hangs is given up at the deadline, too.
///
/// # Panics
///
/// When `timeout` has passed: with the sentence, with what was missing last, and with the place of
/// the call.
///
/// ```
/// use postrider_testkit::wait_until;
/// use std::time::Duration;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let mut looks = 0;
/// let answer = wait_until("we have looked three times", Duration::from_secs(5), async || {
///     looks += 1;
///     if looks == 3 { Ok("done") } else { Err(format!("we have looked {looks} times")) }
/// })
/// .await;
/// assert_eq!(answer, "done");
/// # }
/// ```
#[track_caller]
pub fn wait_until<T, F>(what: &str, timeout: Duration, check: F) -> impl Future<Output = T>
where
    F: AsyncFnMut() -> Result<T, String>,
{
    // An async function would not see its caller.
    let place = Location::caller();
    poll(what, timeout, check, place)
}

async fn poll<T, F>(what: &str, limit: Duration, mut check: F, place: &Location<'_>) -> T
where
    F: AsyncFnMut() -> Result<T, String>,
{
    let deadline = Instant::now() + limit;
    let mut pause = FIRST_PAUSE;
    let mut missing = "the first look has not ended".to_owned();
    loop {
        match timeout_at(deadline, pin!(check())).await {
            Ok(Ok(value)) => return value,
            Ok(Err(now)) => missing = now,
            Err(_) => missing.push_str(" (and the last look has not ended)"),
        }
        if Instant::now() >= deadline {
            panic!("waited {limit:?} in vain until {what}; at last: {missing} (at {place})");
        }
        sleep(pause.min(deadline - Instant::now())).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    #[should_panic(expected = "in vain until the cows come home; at last: 3 of 4 are in (at ")]
    async fn in_the_end_it_says_what_is_missing() {
        let check = async || Err::<(), _>("3 of 4 are in".to_owned());
        wait_until("the cows come home", Duration::from_millis(30), check).await;
    }

    #[tokio::test]
    #[should_panic(expected = "the last look has not ended")]
    async fn a_look_that_hangs_is_given_up() {
        let check = async || std::future::pending::<Result<(), String>>().await;
        wait_until("nothing in particular", Duration::from_millis(30), check).await;
    }

    #[tokio::test]
    async fn what_has_happened_already_is_seen_even_with_no_time_left() {
        wait_until("it is so", Duration::ZERO, async || Ok(())).await;
    }
}
