//! The doctor: looks at everything that keeps Postrider from doing well and says what to do.
//!
//! How it fails: only when the database cannot be reached; everything else is a [`Finding`].
//! Invariant: a look changes nothing, and reads a bounded amount of rows.

use std::time::Duration;

use serde::Serialize;
use time::OffsetDateTime;

use super::{Admin, Count, SubscriptionInfo};
use crate::migrate::{self, Status};
use crate::store::{Backlog, Holder, NetRows, ServerLook, SessionLook, Store};
use crate::{Database, Error, Schema};

/// An owed event this old means that no relay keeps up.
const OLD_BACKLOG_MS: i64 = 5 * 60 * 1000;
/// More owed events than this are many.
const LARGE_BACKLOG: i64 = 1_000;
/// A snapshot held for longer than this makes dead rows pile up.
const LONG_HELD_MS: i64 = 5 * 60 * 1000;
/// A slot or standby holds back from this many transactions on, since nobody knows since when.
const LONG_HELD_TRANSACTIONS: i64 = 100_000;
/// Clocks further apart than this confuse people who compare logs; Postrider uses the database's.
const CLOCK_DIFFERENCE: Duration = Duration::from_secs(2);
/// The oldest server that Postrider works with.
const OLDEST_SERVER: i32 = 140_000;

/// How a finding is to be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// As it should be.
    Ok,
    /// It works, and somebody should look at it.
    Warn,
    /// Something does not work.
    Fail,
}

/// One thing that was looked at.
#[derive(Debug, Clone, Serialize)]
pub struct Finding {
    /// What was looked at, in a word or two.
    pub check: &'static str,
    /// How it is to be taken.
    pub verdict: Verdict,
    /// What was found.
    pub found: String,
    /// What to do, unless all is well.
    pub advice: Option<String>,
}

/// Everything that was looked at.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The worst verdict of all.
    pub verdict: Verdict,
    /// The findings, in the order of looking.
    pub findings: Vec<Finding>,
}

/// Looks at the database and at the schema, whatever state it is in.
///
/// # Errors
/// [`crate::ErrorKind::Unreachable`] or [`crate::ErrorKind::Configuration`] when there is nothing
/// to look at.
pub async fn examine(database: &Database, schema: &Schema) -> Result<Report, Error> {
    let client = database.connect().await?;
    let store = Store::new(database, schema)?.unnamed_statements();
    let before = OffsetDateTime::now_utc();
    let look = store.look_at_server().await?;
    let after = OffsetDateTime::now_utc();
    let mut findings = vec![
        ok("connection", format!("PostgreSQL {} at {}", look.version, database.place())),
        server(&look),
        clock(&look, before, after),
        pooler(store.shares_server_process().await?),
        notifications(look.notification_queue_usage),
        horizon(&store.horizon_holders().await?),
    ];
    let status = migrate::status(&client, schema).await?;
    findings.push(schema_finding(status, schema));
    if matches!(status, Status::Current | Status::Ahead { .. }) {
        findings.extend(inside(&Admin { store }).await?);
    }
    let verdict = findings.iter().map(|finding| finding.verdict).max().unwrap_or(Verdict::Ok);
    Ok(Report { verdict, findings })
}

/// What can be seen inside a schema that is there.
async fn inside(admin: &Admin) -> Result<Vec<Finding>, Error> {
    let backlog = admin.store.backlog().await?;
    let sessions = admin.store.sessions().await?;
    let subscriptions = admin.subscriptions().await?;
    let tables = admin.store.net_rows().await?;
    Ok(vec![
        processes(&sessions),
        dead_processes(&sessions),
        owed(&backlog, &sessions),
        failing(&backlog),
        poisoned(&backlog),
        globs(&subscriptions),
        left_out(&subscriptions),
        filters(&subscriptions),
        partitions(&tables, &admin.store.schema),
        net(&tables),
    ])
}

fn ok(check: &'static str, found: impl Into<String>) -> Finding {
    Finding { check, verdict: Verdict::Ok, found: found.into(), advice: None }
}

fn warn(check: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Finding {
    Finding { check, verdict: Verdict::Warn, found: found.into(), advice: Some(advice.into()) }
}

fn fail(check: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Finding {
    Finding { check, verdict: Verdict::Fail, found: found.into(), advice: Some(advice.into()) }
}

fn server(look: &ServerLook) -> Finding {
    if look.in_recovery {
        let advice = "this is a standby: name the primary in the database URL";
        return fail("server", "the server is in recovery and takes no writes", advice);
    }
    if look.number < OLDEST_SERVER {
        let advice = "Postrider is written for PostgreSQL 14 and later";
        return fail("server", format!("version {} is too old", look.version), advice);
    }
    ok("server", "takes writes")
}

fn clock(look: &ServerLook, before: OffsetDateTime, after: OffsetDateTime) -> Finding {
    // The answer was made somewhere between the two readings, so that much is no difference.
    let apart = if look.now < before {
        before - look.now
    } else if look.now > after {
        look.now - after
    } else {
        time::Duration::ZERO
    };
    let found = format!("this machine and the server differ by {} ms", apart.whole_milliseconds());
    if apart > CLOCK_DIFFERENCE {
        let advice = "all times are the server's; let NTP set both clocks";
        return warn("clock", found, advice);
    }
    ok("clock", found)
}

fn pooler(shared: bool) -> Finding {
    if shared {
        let advice = "LISTEN and session locks do not work through it: give engines a direct URL, \
                      or run them with --poll-only";
        return warn("pooler", "a pooler in transaction mode is in between", advice);
    }
    ok("pooler", "none in transaction mode in between, as far as can be seen")
}

fn notifications(usage: f64) -> Finding {
    let found = format!("the notification queue is {:.0} % full", usage * 100.0);
    if usage < 0.25 {
        return ok("notifications", found);
    }
    let advice = "a session that listens sits in an old transaction: find it in pg_stat_activity \
                  and end it";
    if usage < 0.5 {
        return warn("notifications", found, advice);
    }
    // From here on writers do not ring any more.
    fail("notifications", format!("{found}; events are found by sweeps only"), advice)
}

fn horizon(holders: &[Holder]) -> Finding {
    let describe = |holder: &Holder| {
        let since = holder.held_ms.map(|ms| format!(" for {}", duration(ms))).unwrap_or_default();
        let detail = match holder.detail.as_str() {
            "" => String::new(),
            detail => format!(" ({detail})"),
        };
        let (kind, name, transactions) = (&holder.kind, &holder.name, holder.transactions);
        format!("{kind} {name}{detail}{since}, {transactions} transactions back")
    };
    let long = |holder: &&Holder| match holder.held_ms {
        Some(ms) => ms > LONG_HELD_MS,
        None => holder.transactions > LONG_HELD_TRANSACTIONS,
    };
    let held: Vec<String> = holders.iter().filter(long).map(describe).collect();
    if held.is_empty() {
        return ok("vacuum", "nothing holds the vacuum horizon back for long");
    }
    let advice = "dead rows pile up until it ends: select pg_terminate_backend(PID), rollback \
                  prepared 'NAME', or select pg_drop_replication_slot('NAME')";
    warn("vacuum", format!("held back by {}", held.join("; ")), advice)
}

fn repair(schema: &Schema) -> String {
    format!("run: {}", schema.migrate_command())
}

fn schema_finding(status: Status, schema: &Schema) -> Finding {
    let name = schema.name();
    match status {
        Status::Current => ok("schema", format!("`{name}` is at version {}", migrate::version())),
        Status::Missing => {
            fail("schema", format!("there is no Postrider in `{name}`"), repair(schema))
        }
        Status::Behind { version } => {
            let needed = migrate::version();
            let found = format!("`{name}` is at version {version}, this program needs {needed}");
            fail("schema", found, repair(schema))
        }
        Status::Ahead { version } => {
            let found =
                format!("`{name}` is at version {version}, which is newer than this program");
            fail("schema", found, "run the newer program, or update this one")
        }
    }
}

fn processes(sessions: &[SessionLook]) -> Finding {
    let live: Vec<String> = sessions
        .iter()
        .filter(|session| session.lives)
        .map(|session| {
            let relay = if session.runs_relay { "" } else { ", no relay" };
            format!("{} (version {}{relay})", session.name, session.version)
        })
        .collect();
    if live.is_empty() {
        let advice = "events stay owed until an engine runs: postrider serve";
        return warn("processes", "no process runs an engine", advice);
    }
    ok("processes", format!("{}: {}", live.len(), live.join(", ")))
}

fn dead_processes(sessions: &[SessionLook]) -> Finding {
    let dead: Vec<&str> = sessions
        .iter()
        .filter(|session| !session.lives)
        .map(|session| session.name.as_str())
        .collect();
    if dead.is_empty() {
        return ok("dead processes", "none holds jobs");
    }
    let found = format!("jobs wait for rescue from {}", dead.join(", "));
    let advice = "a running engine rescues their jobs within seconds; if this stays, none runs";
    warn("dead processes", found, advice)
}

fn owed(backlog: &Backlog, sessions: &[SessionLook]) -> Finding {
    let Some(oldest) = backlog.oldest_age_ms else { return ok("backlog", "nothing is owed") };
    let found = format!("owed: {}, the oldest for {}", backlog.owed, duration(oldest));
    let many = !backlog.owed.exact || backlog.owed.at_least > LARGE_BACKLOG;
    if oldest <= OLD_BACKLOG_MS && !many {
        return ok("backlog", found);
    }
    let relays = sessions.iter().filter(|session| session.lives && session.runs_relay).count();
    match relays {
        0 => fail("backlog", found, "no relay runs: postrider serve"),
        _ => warn("backlog", found, "relays run but do not keep up: see their logs, or start more"),
    }
}

fn failing(backlog: &Backlog) -> Finding {
    match backlog.failing.at_least {
        0 => ok("failing", "no fan-out is failing"),
        _ => warn(
            "failing",
            format!("events whose fan-out failed and is tried again: {}", backlog.failing),
            "see: postrider events list --state failing",
        ),
    }
}

fn poisoned(backlog: &Backlog) -> Finding {
    match backlog.poisoned.at_least {
        0 => ok("poisoned", "no event is poisoned"),
        _ => fail(
            "poisoned",
            format!("events that are poisoned and wait for a person: {}", backlog.poisoned),
            "see: postrider events list --state poisoned; then requeue or skip each",
        ),
    }
}

/// Joins `subscription: thing, thing` of those that have some.
fn each<'a>(
    subscriptions: &'a [SubscriptionInfo],
    things: impl Fn(&'a SubscriptionInfo) -> Vec<String>,
) -> Vec<String> {
    let told = subscriptions.iter().map(|info| (&info.declared.name, things(info)));
    let told = told.filter(|(_, things)| !things.is_empty());
    told.map(|(name, things)| format!("{name}: {}", things.join(", "))).collect()
}

fn globs(subscriptions: &[SubscriptionInfo]) -> Finding {
    let unmatched = each(subscriptions, |info| {
        let matched = |glob: &crate::Glob| {
            let types = info.types.iter().chain(&info.left_out);
            types
                .filter_map(|name| crate::TypeName::parse(name.as_str()).ok())
                .any(|name| glob.matches(&name))
        };
        let globs = info.declared.globs.iter().filter(|glob| !matched(glob));
        globs.map(|glob| glob.as_str().to_owned()).collect()
    });
    if unmatched.is_empty() {
        let count = Count::of(i64::try_from(subscriptions.len()).unwrap_or(i64::MAX));
        return ok("subscriptions", format!("{count}, and every glob matches a declared type"));
    }
    let found = format!("globs that match no declared type: {}", unmatched.join("; "));
    warn("subscriptions", found, "declare the type, or correct the glob: postrider types list")
}

fn left_out(subscriptions: &[SubscriptionInfo]) -> Finding {
    let left_out = each(subscriptions, |info| info.left_out.clone());
    if left_out.is_empty() {
        return ok("exposure", "no subscription is kept from a type that it asks for");
    }
    let found = format!("internal types that a subscription does not get: {}", left_out.join("; "));
    warn("exposure", found, "declare the type with --external if it may leave the instance")
}

fn filters(subscriptions: &[SubscriptionInfo]) -> Finding {
    let failed = each(subscriptions, |info| info.filter_error.iter().cloned().collect());
    if failed.is_empty() {
        return ok("filters", "no filter has failed");
    }
    let advice = "its events are in: postrider jobs list --state discarded; correct the filter, \
                  then retry them";
    warn("filters", failed.join("; "), advice)
}

fn partitions(tables: &[NetRows], schema: &Schema) -> Finding {
    let Some(least) = tables.iter().map(|table| table.days_ahead).min() else {
        return fail("partitions", "there are none", repair(schema));
    };
    let found = match least {
        i32::MIN..0 => "today's are missing".to_owned(),
        days => format!("made {days} days ahead"),
    };
    match least {
        i32::MIN..1 => fail("partitions", found, "a running engine makes them: postrider serve"),
        1..3 => warn("partitions", found, "a running engine makes them: postrider serve"),
        _ => ok("partitions", found),
    }
}

fn net(tables: &[NetRows]) -> Finding {
    let caught: Vec<String> = tables
        .iter()
        .filter(|table| table.in_net.at_least > 0)
        .map(|table| format!("{}: {}", table.table, table.in_net))
        .collect();
    if caught.is_empty() {
        return ok("default partitions", "empty");
    }
    let advice = "kept events (owed, poisoned, unfinished) belong there; anything else means that \
                  partitions were made too late";
    warn("default partitions", format!("hold rows of {}", caught.join(", ")), advice)
}

/// A time span for people.
fn duration(ms: i64) -> String {
    let seconds = ms / 1000;
    match seconds {
        i64::MIN..1 => format!("{ms} ms"),
        1..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    }
}
