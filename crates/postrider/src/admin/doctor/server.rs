//! The server: whether it takes writes, its clock, its connections, and who holds vacuum back.
//!
//! How it fails: it does not; it judges what was asked. Invariant: what an unprivileged role cannot
//! see is said to be unseen.

use std::time::Duration;

use time::OffsetDateTime;

use super::{Finding, duration};
use crate::store::{Connections, Holder, ServerLook};

/// A slot or standby holds back from this many transactions on, since nobody knows since when.
const LONG_HELD_TRANSACTIONS: i64 = 100_000;
/// Clocks further apart than this confuse people who compare logs; Postrider uses the database's.
const CLOCK_DIFFERENCE: Duration = Duration::from_secs(1);
/// The oldest server that Postrider works with.
const OLDEST_SERVER: i32 = 140_000;
/// From this part of the connections on they may run out at the next start of some service.
const MANY_CONNECTIONS_PERCENT: i64 = 80;

pub(super) fn server(look: &ServerLook) -> Finding {
    if look.in_recovery {
        let advice = "this is a standby: name the primary in the database URL";
        return Finding::problem("server", "the server is in recovery and takes no writes", advice);
    }
    if look.read_only {
        let advice = "find out why default_transaction_read_only is on for this server, database \
                      or role; after a failover, name the new primary";
        return Finding::problem("server", "transactions are read-only here", advice);
    }
    if look.number < OLDEST_SERVER {
        let advice = "Postrider is written for PostgreSQL 14 and later";
        return Finding::problem("server", format!("version {} is too old", look.version), advice);
    }
    Finding::ok("server", "takes writes")
}

pub(super) fn clock(look: &ServerLook, before: OffsetDateTime, after: OffsetDateTime) -> Finding {
    // The answer was made somewhere between the two readings, so that much is no difference.
    let apart = if look.now < before {
        before - look.now
    } else if look.now > after {
        look.now - after
    } else {
        time::Duration::ZERO
    };
    let ms = i64::try_from(apart.whole_milliseconds()).unwrap_or(i64::MAX);
    let side = if look.now < before { "ahead of" } else { "behind" };
    let finding = if apart > CLOCK_DIFFERENCE {
        let found = format!("this machine is {} {side} the server", duration(ms));
        let advice = "let NTP set both clocks; all times in Postrider are the server's";
        Finding::warning("clock", found, advice)
    } else {
        Finding::ok("clock", format!("this machine and the server differ by {ms} ms"))
    };
    finding.number("difference_ms", ms)
}

pub(super) fn connections(look: Connections) -> Finding {
    let Connections { most, used, working, listening, locking } = look;
    let own = format!("{working} work, {listening} listen, {locking} hold locks");
    let found = format!("{used} of {most} are in use; of Postrider's own, {own}");
    let finding = if used >= most {
        let advice = "raise max_connections, lower pool sizes, or put a pooler in between";
        Finding::problem("connections", found, advice)
    } else if used * 100 >= most * MANY_CONNECTIONS_PERCENT {
        let advice = "raise max_connections or lower pool sizes before they run out";
        Finding::warning("connections", found, advice)
    } else {
        Finding::ok("connections", found)
    };
    let own = [("working", working), ("listening", listening), ("locking", locking)];
    own.into_iter()
        .fold(finding, |finding, (name, count)| finding.number(name, count))
        .number("used", used)
        .number("most", most)
}

pub(super) fn notifications(usage: f64) -> Finding {
    let found = format!("the notification queue is {:.0} % full", usage * 100.0);
    let advice = "a session that listens sits in an old transaction: find it in pg_stat_activity \
                  and end it";
    let finding = if usage < 0.25 {
        Finding::ok("notifications", found)
    } else if usage < 0.5 {
        Finding::warning("notifications", found, advice)
    } else {
        // From here on writers do not ring any more.
        let found = format!("{found}; events are found by sweeps only");
        Finding::problem("notifications", found, advice)
    };
    finding.number("used_percent", (usage * 1000.0).round() / 10.0)
}

/// One finding for each who holds the horizon back for long.
pub(super) fn horizon(holders: &[Holder], limit: Duration) -> Vec<Finding> {
    let limit_ms = i64::try_from(limit.as_millis()).unwrap_or(i64::MAX);
    let long = |holder: &&Holder| match holder.held_ms {
        Some(ms) => ms >= limit_ms,
        None => limit_ms == 0 || holder.transactions >= LONG_HELD_TRANSACTIONS,
    };
    let held: Vec<Finding> = holders.iter().filter(long).map(held).collect();
    if held.is_empty() {
        return vec![Finding::ok("vacuum horizon", "nobody holds it back for long")];
    }
    held
}

fn held(holder: &Holder) -> Finding {
    let Holder { name, application, detail, transactions, .. } = holder;
    let (who, advice) = match holder.kind.as_str() {
        "session" => {
            let application = if application.is_empty() { "no name" } else { application };
            let query = holder.query_ms.map(|ms| format!(", query since {}", duration(ms)));
            let who =
                format!("session {name} ({application}, {detail}{})", query.unwrap_or_default());
            let advice = format!(
                "end its transaction, or: select pg_terminate_backend({name}); \
                 idle_in_transaction_session_timeout prevents it"
            );
            (who, advice)
        }
        "prepared" => {
            let quoted = name.replace('\'', "''");
            let advice =
                format!("in its database: commit prepared '{quoted}' or rollback prepared");
            (format!("prepared transaction {name} ({detail})"), advice)
        }
        "slot" => {
            let quoted = name.replace('\'', "''");
            let advice = match detail.as_str() {
                "active" => {
                    "its standby has a long query (hot_standby_feedback): end that there".to_owned()
                }
                _ => format!(
                    "bring its standby back, or: select pg_drop_replication_slot('{quoted}')"
                ),
            };
            (format!("replication slot {name} ({detail})"), advice)
        }
        _ => {
            let advice =
                "end the long query on that standby, or turn hot_standby_feedback off there";
            (format!("feedback of standby {application} ({detail})"), advice.to_owned())
        }
    };
    let since = holder.held_ms.map(|ms| format!(" for {}", duration(ms))).unwrap_or_default();
    let found = format!("held{since} by {who}, {transactions} transactions back");
    let finding = Finding::warning("vacuum horizon", found, advice);
    let finding = finding.number("transactions", *transactions).number("holder", name.as_str());
    let finding = finding.number("kind", holder.kind.as_str());
    match holder.held_ms {
        Some(ms) => finding.number("held_ms", ms),
        None => finding,
    }
}

/// Whether other roles' sessions are shown, without which a holder may go unseen.
pub(super) fn sight(look: &ServerLook) -> Finding {
    if look.sees_all_sessions {
        return Finding::ok("sight", "sessions of every role are shown");
    }
    let role = &look.role;
    let found = format!("sessions of other roles are hidden from {role}, long transactions too");
    Finding::warning("sight", found, format!("as a superuser: grant pg_monitor to {role}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::Level;

    #[test]
    fn a_notification_queue_is_a_warning_at_a_quarter_and_a_problem_at_half() {
        for (usage, level) in [(0.24, Level::Ok), (0.25, Level::Warning), (0.5, Level::Problem)] {
            assert_eq!(notifications(usage).level, level, "{usage}");
        }
    }

    #[test]
    fn connections_are_a_warning_from_four_fifths_on_and_a_problem_when_none_is_left() {
        for (used, level) in [(79, Level::Ok), (80, Level::Warning), (100, Level::Problem)] {
            let look = Connections { most: 100, used, working: 1, listening: 1, locking: 1 };
            assert_eq!(connections(look).level, level, "{used}");
        }
    }

    #[test]
    fn a_slot_and_a_standby_are_judged_by_transactions_and_named_with_what_to_do() {
        let holder = |kind: &str, detail: &str, transactions| Holder {
            kind: kind.into(),
            name: "it's".into(),
            application: "replica".into(),
            detail: detail.into(),
            transactions,
            held_ms: None,
            query_ms: None,
        };
        let look = |holder: Holder| horizon(&[holder], Duration::from_secs(300)).remove(0);
        assert_eq!(look(holder("slot", "not in use", 99_999)).level, Level::Ok);
        let slot = look(holder("slot", "not in use", 100_000));
        assert_eq!(slot.level, Level::Warning);
        let advice = slot.advice.unwrap_or_default();
        assert!(advice.ends_with("select pg_drop_replication_slot('it''s')"), "{advice}");
        let standby = look(holder("standby", "streaming", 100_000));
        assert!(standby.found.contains("feedback of standby replica"), "{}", standby.found);
    }
}
