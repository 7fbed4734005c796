//! Work and who does it: processes, what is owed, what fails, and what subscriptions ask for.
//!
//! How it fails: it does not; it judges what was asked. Invariant: names are listed, up to a few.

use super::{Finding, duration, some};
use crate::admin::{Count, SubscriptionInfo};
use crate::store::{Backlog, SessionLook, SessionState};

/// An owed event this old means that no relay keeps up.
const OLD_BACKLOG_MS: i64 = 5 * 60 * 1000;
/// More owed events than this are many.
const LARGE_BACKLOG: i64 = 1_000;
/// A lease that ran out this long ago while engines run should have been taken back.
const RESCUE_IS_LATE_MS: i64 = 60 * 1000;
fn in_state(sessions: &[SessionLook], states: &[SessionState]) -> Vec<SessionLook> {
    sessions.iter().filter(|session| states.contains(&session.state)).cloned().collect()
}

pub(super) fn processes(sessions: &[SessionLook]) -> Finding {
    let live: Vec<String> = in_state(sessions, &[SessionState::Lives])
        .iter()
        .map(|session| {
            let relay = if session.runs_relay { "" } else { ", no relay" };
            format!("{} (version {}{relay})", session.name, session.version)
        })
        .collect();
    let finding = if live.is_empty() {
        let advice = "events stay owed until an engine runs: postrider serve";
        Finding::warning("processes", "no process runs an engine", advice)
    } else {
        Finding::ok("processes", format!("{}: {}", live.len(), some(&live, ", ")))
    };
    finding.number("live", live.len())
}

/// Processes that are dead and whose jobs nobody has taken back yet.
pub(super) fn dead_processes(sessions: &[SessionLook]) -> Finding {
    let dead = in_state(sessions, &[SessionState::Late, SessionState::Holds]);
    let names: Vec<String> = dead.iter().map(|session| session.name.clone()).collect();
    let oldest = dead.iter().map(|session| session.over_ms).max().unwrap_or(0);
    let live = in_state(sessions, &[SessionState::Lives]).len();
    let finding = if dead.is_empty() {
        Finding::ok("dead processes", "none waits for rescue")
    } else {
        let since = duration(oldest);
        let found = format!("not rescued yet, for up to {since}: {}", some(&names, ", "));
        if live == 0 {
            let advice = "start an engine: it takes their jobs back within seconds";
            Finding::problem("dead processes", found, advice)
        } else if oldest > RESCUE_IS_LATE_MS {
            let advice = "engines run and do not take their jobs back: see their logs";
            Finding::problem("dead processes", found, advice)
        } else {
            let advice = "a running engine takes their jobs back within seconds; look again";
            Finding::warning("dead processes", found, advice)
        }
    };
    finding.number("dead", dead.len()).number("oldest_ms", oldest)
}

/// Processes that were lost within the last hour.
pub(super) fn lost_processes(sessions: &[SessionLook]) -> Finding {
    let lost = in_state(sessions, &[SessionState::Lost]);
    let Some(last) = lost.iter().min_by_key(|session| session.over_ms) else {
        return Finding::ok("lost processes", "none within the last hour").number("lost", 0);
    };
    let found = format!(
        "{} within the last hour, the last of them {}, {} ago",
        lost.len(),
        last.name,
        duration(last.over_ms)
    );
    let advice = "see why: killed, out of memory, or cut off for longer than its lease; `postrider \
                  jobs list --state discarded` shows whether a job did it";
    Finding::warning("lost processes", found, advice)
        .number("lost", lost.len())
        .number("last_ms_ago", last.over_ms)
}

pub(super) fn owed(backlog: &Backlog, sessions: &[SessionLook]) -> Finding {
    let Some(oldest) = backlog.oldest_age_ms else {
        return Finding::ok("backlog", "nothing is owed").number("owed", 0);
    };
    let found = format!("owed: {}, the oldest for {}", backlog.owed, duration(oldest));
    let many = !backlog.owed.exact || backlog.owed.at_least > LARGE_BACKLOG;
    let live = in_state(sessions, &[SessionState::Lives]);
    let finding = if oldest <= OLD_BACKLOG_MS && !many {
        Finding::ok("backlog", found)
    } else if live.iter().any(|session| session.runs_relay) {
        let advice = "relays run but do not keep up: see their logs, or start more";
        Finding::warning("backlog", found, advice)
    } else {
        Finding::problem("backlog", found, "no relay runs: postrider serve")
    };
    finding.number("owed", backlog.owed.at_least).number("oldest_ms", oldest)
}

pub(super) fn failing(backlog: &Backlog) -> Finding {
    let count = backlog.failing.at_least;
    let finding = match count {
        0 => Finding::ok("failing", "no fan-out is failing"),
        _ => Finding::warning(
            "failing",
            format!("events whose fan-out failed and is tried again: {}", backlog.failing),
            "see: postrider events list --state failing",
        ),
    };
    finding.number("failing", count)
}

pub(super) fn poisoned(backlog: &Backlog) -> Finding {
    let count = backlog.poisoned.at_least;
    let finding = match count {
        0 => Finding::ok("poisoned", "no event is poisoned"),
        _ => Finding::problem(
            "poisoned",
            format!("events that are poisoned and wait for a person: {}", backlog.poisoned),
            "see: postrider events list --state poisoned; then requeue or skip each",
        ),
    };
    finding.number("poisoned", count)
}

/// Texts `subscription: thing, thing` of those that have some.
fn each<'a>(
    subscriptions: &'a [SubscriptionInfo],
    things: impl Fn(&'a SubscriptionInfo) -> Vec<String>,
) -> Vec<String> {
    let told = subscriptions.iter().map(|info| (&info.declared.name, things(info)));
    let told = told.filter(|(_, things)| !things.is_empty());
    told.map(|(name, things)| format!("{name}: {}", some(&things, ", "))).collect()
}

pub(super) fn globs(subscriptions: &[SubscriptionInfo]) -> Finding {
    let unmatched = each(subscriptions, |info| {
        let types = info.types.iter().chain(&info.left_out);
        let types: Vec<crate::TypeName> =
            types.filter_map(|name| crate::TypeName::parse(name.as_str()).ok()).collect();
        let globs = info.declared.globs.iter();
        let globs = globs.filter(|glob| !types.iter().any(|name| glob.matches(name)));
        globs.map(|glob| glob.as_str().to_owned()).collect()
    });
    let count = Count::of(i64::try_from(subscriptions.len()).unwrap_or(i64::MAX));
    let finding = if unmatched.is_empty() {
        let found = format!("{count}, and every glob matches a declared type");
        Finding::ok("subscriptions", found)
    } else {
        let found = format!("globs that match no declared type: {}", some(&unmatched, "; "));
        let advice = "declare the type, or correct the glob: postrider types list";
        Finding::warning("subscriptions", found, advice)
    };
    finding.number("subscriptions", count.at_least)
}

pub(super) fn left_out(subscriptions: &[SubscriptionInfo]) -> Finding {
    let left_out = each(subscriptions, |info| info.left_out.clone());
    if left_out.is_empty() {
        return Finding::ok("exposure", "no subscription is kept from a type that it asks for");
    }
    let found =
        format!("internal types that a subscription does not get: {}", some(&left_out, "; "));
    let advice = "declare the type with --external if it may leave the instance";
    Finding::warning("exposure", found, advice)
}

pub(super) fn filters(subscriptions: &[SubscriptionInfo]) -> Finding {
    let failed = each(subscriptions, |info| info.filter_error.iter().cloned().collect());
    if failed.is_empty() {
        return Finding::ok("filters", "no filter has failed");
    }
    let advice = "its events are in: postrider jobs list --state discarded; correct the filter, \
                  then retry them";
    Finding::warning("filters", some(&failed, "; "), advice)
}
