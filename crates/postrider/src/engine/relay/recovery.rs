//! Fan-out one event at a time: after a failed pass, and when a relay may have died of an event.
//!
//! Each event is first moved to the failures with its attempt counted and committed, then tried.
//! If this process dies then, the attempt is known and the event waits its turn.
//!
//! How it fails: an error that is not the event's own ends the pass and uses up no attempt.
//! Invariants: an event is poisoned only after five attempts of its own; an outage, or several
//! events failing alike with none succeeding, poisons nobody.

use tokio::sync::watch;

use super::Relay;
use crate::store::{Failure, Fanned};
use crate::{Error, ErrorKind};

/// How many events that fail alike, with none succeeding, make an outage.
const ALIKE: usize = 3;
/// How many events recorded later are tried before failures alike are taken for an outage.
const PROBES: i64 = 3;

/// The failed tries of one round.
type Round = Vec<(Failure, Error)>;

impl Relay {
    /// Fans out the next owed events one by one, a batch at most, until as many as are suspect
    /// went well in a row, nothing is owed, or `stop` turns true.
    ///
    /// Events that fail alike may be an outage, or bad ones in front of good ones: then some that
    /// were recorded later are tried before it is judged.
    pub(super) async fn try_suspects(&mut self, stop: &watch::Receiver<bool>) -> Result<(), Error> {
        let mut round = Round::new();
        let (mut in_a_row, mut probes, mut all_tried) = (0, 0, false);
        for _ in 0..self.config.batch_max {
            if *stop.borrow() || in_a_row >= self.suspects {
                break;
            }
            let probing = is_outage(self.succeeded, &round);
            if probing && (probes == PROBES || is_the_databases(&round[0].1)) {
                break;
            }
            probes += i64::from(probing);
            let failed = round.len();
            match self.next_suspect(&round, if probing { probes } else { 0 }).await {
                Ok(Some(failure)) => self.try_one(failure, &mut round).await,
                Ok(None) => {
                    all_tried = !probing;
                    break;
                }
                Err(error) => {
                    self.refund(&round).await;
                    return Err(error);
                }
            }
            in_a_row = if round.len() > failed { 0 } else { in_a_row + 1 };
        }
        let failed = !round.is_empty();
        if let Some(outage) = self.conclude(round).await? {
            return Err(outage);
        }
        self.suspects = match (all_tried, failed) {
            (true, _) => 0,
            // Where one was bad, the next may be: a batch with it would fail as a whole.
            (false, true) => self.config.batch_max,
            (false, false) => self.suspects - in_a_row,
        };
        Ok(())
    }

    /// The next owed event, or with `probe` from 1 on one further ahead: the probes are spread
    /// evenly from the last that failed to the newest.
    async fn next_suspect(&self, round: &Round, probe: i64) -> Result<Option<Failure>, Error> {
        let mut bound = 0;
        if probe > 0 {
            let last = round.last().map_or(0, |(failure, _)| failure.seq);
            let newest = self.store.newest_seq().await?;
            bound = last + (newest - 1 - last).max(0) / (PROBES + 1 - probe);
        }
        self.store.suspect_next(bound, self.config.retry_wait).await
    }

    /// Tries the failures whose turn it is. The pass before it went well, so an outage here is
    /// nothing to hold up others for: the failures wait for their next turn. A stop ends it early.
    pub(super) async fn try_failures(&mut self, stop: &watch::Receiver<bool>) -> Result<(), Error> {
        let mut round = Round::new();
        for _ in 0..self.config.batch_max {
            if *stop.borrow() {
                break;
            }
            let tried: Vec<i64> = round.iter().map(|(failure, _)| failure.seq).collect();
            let failure = match self.store.claim_failure(self.config.retry_wait, &tried).await {
                Ok(Some(failure)) => failure,
                Ok(None) => break,
                Err(error) => {
                    self.conclude(round).await?;
                    return Err(error);
                }
            };
            if failure.attempt > self.config.attempts_max {
                self.poison_silent(failure).await?;
                continue;
            }
            self.try_one(failure, &mut round).await;
            if is_outage(self.succeeded, &round) {
                break;
            }
        }
        let judged = !round.is_empty();
        let outage = self.conclude(round).await?;
        if judged {
            self.succeeded = 0;
        }
        if let Some(outage) = outage {
            tracing::warn!(
                error = &outage as &dyn std::error::Error,
                "events that failed before failed alike; none of them is to blame yet"
            );
        }
        Ok(())
    }

    /// Tries one event whose attempt is counted.
    async fn try_one(&mut self, failure: Failure, round: &mut Round) {
        match self.fan_out_declaring(failure).await {
            Ok(fanned) => {
                self.succeeded += usize::from(fanned.events > 0);
                self.wakes.fanned();
            }
            Err(error) => round.push((failure, error)),
        }
    }

    async fn fan_out_declaring(&self, failure: Failure) -> Result<Fanned, Error> {
        let fanned = self.store.fan_out_failure(failure).await?;
        if fanned.undeclared.is_empty() {
            return Ok(fanned);
        }
        self.declare_unknown(fanned.undeclared).await?;
        self.store.fan_out_failure(failure).await
    }

    /// Counts the failures of a round against their events, unless it was an outage: then they get
    /// their attempts back and the error is returned.
    async fn conclude(&mut self, round: Round) -> Result<Option<Error>, Error> {
        let nobody_succeeded = self.succeeded == 0;
        if !nobody_succeeded {
            self.outage = None;
        }
        let goes_on = |(_, error): &(Failure, Error)| self.outage.as_ref() == Some(&cause(error));
        if is_outage(self.succeeded, &round)
            || nobody_succeeded && round.iter().any(|(_, error)| is_the_databases(error))
            || nobody_succeeded && !round.is_empty() && round.iter().all(goes_on)
        {
            self.outage = round.first().map(|(_, error)| cause(error));
            self.refund(&round).await;
            return Ok(round.into_iter().next().map(|(_, error)| error));
        }
        for (failure, error) in round {
            if is_of_the_moment(&error) {
                self.refund(&vec![(failure, error)]).await;
                continue;
            }
            let text = describe(&error);
            let most = self.config.attempts_max;
            if self.store.note_failure(failure, &text, most).await? {
                tracing::error!(seq = failure.seq, error = text, "an event is poisoned");
            } else {
                tracing::warn!(
                    seq = failure.seq,
                    attempt = failure.attempt,
                    error = text,
                    "the fan-out of an event failed"
                );
            }
        }
        Ok(None)
    }

    /// Gives attempts back; when the database is away, at the next look.
    async fn refund(&mut self, round: &Round) {
        self.refunds.extend(round.iter().map(|(failure, _)| failure.seq));
        if let Err(error) = self.give_back().await {
            tracing::debug!(%error, "attempts could not be given back yet");
        }
    }

    /// Gives back the attempts that are still owed to events.
    pub(super) async fn give_back(&mut self) -> Result<(), Error> {
        if !self.refunds.is_empty() {
            self.store.refund_failures(&self.refunds).await?;
            self.refunds.clear();
        }
        Ok(())
    }

    /// Poisons an event whose every attempt ended without a word.
    async fn poison_silent(&self, failure: Failure) -> Result<(), Error> {
        let most = self.config.attempts_max;
        let text = format!("the process died in each of {most} attempts to fan this event out");
        self.store.note_failure(failure, &text, most).await?;
        tracing::error!(seq = failure.seq, error = text, "an event is poisoned");
        Ok(())
    }
}

/// Whether several events failed alike while nothing succeeded.
fn is_outage(succeeded: usize, round: &Round) -> bool {
    let Some((_, first)) = round.first() else { return false };
    succeeded == 0
        && round.len() >= ALIKE
        && round.iter().all(|(_, error)| cause(error) == cause(first))
}

/// Whether an error says something about the database or its set-up rather than about the event.
fn is_the_databases(error: &Error) -> bool {
    error.is_transient()
        || matches!(error.kind(), ErrorKind::Unreachable | ErrorKind::Schema | ErrorKind::Busy)
        // Missing grants, a full notification queue, and a statement cancelled from outside.
        || matches!(error.sqlstate(), Some("42501" | "54000" | "57014"))
}

/// Whether an error would not be there a moment later, so that it is never an event's fault, even
/// while others succeed: deadlock, lock timeout, failover, lack of some resource.
fn is_of_the_moment(error: &Error) -> bool {
    error.is_transient() && error.kind() != ErrorKind::Unreachable
}

/// What makes two errors alike: their kind and SQLSTATE.
pub(super) type Cause = (ErrorKind, Option<String>);

fn cause(error: &Error) -> Cause {
    (error.kind(), error.sqlstate().map(str::to_owned))
}

/// The error with its causes, fit to be stored.
fn describe(error: &Error) -> String {
    postrider_core::text::storable(&super::super::chain(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(seq: i64, sqlstate: &str) -> (Failure, Error) {
        let error = crate::TransactionError::new("x").sqlstate(sqlstate).into();
        (Failure { seq, attempt: 1 }, error)
    }

    #[test]
    fn one_event_that_fails_alone_is_no_outage() {
        assert!(!is_outage(0, &vec![failed(1, "22012")]));
    }

    #[test]
    fn several_events_that_fail_alike_with_none_succeeding_are_an_outage() {
        let alike = vec![failed(1, "P0001"), failed(2, "P0001"), failed(3, "P0001")];
        assert!(is_outage(0, &alike));
        assert!(!is_outage(1, &alike));
        assert!(!is_outage(0, &vec![failed(1, "P0001"), failed(2, "22012"), failed(3, "P0001")]));
    }

    #[test]
    fn a_lost_connection_a_failover_and_a_missing_grant_are_the_databases() {
        for sqlstate in ["08006", "57P01", "25006", "40P01", "42501", "42P01", "53300"] {
            assert!(is_the_databases(&failed(1, sqlstate).1), "{sqlstate}");
        }
        assert!(!is_the_databases(&failed(1, "22012").1));
    }

    #[test]
    fn a_deadlock_is_of_the_moment_and_a_lost_connection_may_be_the_events_doing() {
        for sqlstate in ["40P01", "55P03", "25006", "53200"] {
            assert!(is_of_the_moment(&failed(1, sqlstate).1), "{sqlstate}");
        }
        for sqlstate in ["57P01", "08006", "P0001", "42P01"] {
            assert!(!is_of_the_moment(&failed(1, sqlstate).1), "{sqlstate}");
        }
    }
}
