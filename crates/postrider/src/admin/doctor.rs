//! The doctor: looks at everything that keeps Postrider from doing well and says what to do.
//!
//! How it fails: only when the database cannot be reached; everything else is a [`Finding`].
//! Invariants: a look changes nothing, reads a bounded amount of rows, and says for whatever is not
//! as it should be what to do about it.

mod backlog;
mod line;
mod server;
mod upkeep;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use time::OffsetDateTime;

use super::Admin;
use crate::migrate::{self, Status};
use crate::store::Store;
use crate::{Database, Error, Schema};

/// How a finding is to be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// As it should be.
    Ok,
    /// It works, and somebody should look at it.
    Warning,
    /// Something does not work.
    Problem,
}

/// One thing that was looked at.
#[derive(Debug, Clone, Serialize)]
pub struct Finding {
    /// What was looked at, in a word or two; several findings may share it.
    pub check: &'static str,
    /// How it is to be taken.
    pub level: Level,
    /// What was found, in one sentence.
    pub found: String,
    /// What to do, in one sentence, unless all is well.
    pub advice: Option<String>,
    /// The numbers behind it by name, units last, for programs.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub numbers: BTreeMap<&'static str, Value>,
}

impl Finding {
    fn ok(check: &'static str, found: impl Into<String>) -> Self {
        let (found, numbers) = (found.into(), BTreeMap::new());
        Self { check, level: Level::Ok, found, advice: None, numbers }
    }

    fn warning(check: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { level: Level::Warning, advice: Some(advice.into()), ..Self::ok(check, found) }
    }

    fn problem(check: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { level: Level::Problem, advice: Some(advice.into()), ..Self::ok(check, found) }
    }

    fn number(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.numbers.insert(name, value.into());
        self
    }
}

/// Everything that was looked at.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The worst level of all.
    pub level: Level,
    /// The findings, in the order of looking.
    pub findings: Vec<Finding>,
}

/// From when on something is worth a word.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// How long a snapshot may be held open; zero names every holder. Defaults to 5 minutes.
    pub held: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { held: Duration::from_secs(5 * 60) }
    }
}

/// Looks at the database and at the schema, whatever state it is in.
///
/// ```no_run
/// # async fn example() -> Result<(), postrider::Error> {
/// use postrider::admin::{self, Level, Limits};
/// use postrider::{Database, Schema};
///
/// let database = Database::new("postgres://app@localhost/shop")?;
/// let report = admin::examine(&database, &Schema::default(), Limits::default()).await?;
/// for finding in report.findings.iter().filter(|finding| finding.level == Level::Problem) {
///     println!("{}: {}", finding.check, finding.found);
/// }
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`crate::ErrorKind::Unreachable`] or [`crate::ErrorKind::Configuration`] when there is nothing
/// to look at.
pub async fn examine(
    database: &Database,
    schema: &Schema,
    limits: Limits,
) -> Result<Report, Error> {
    let name = database.application_name();
    // Two at once tell whether something between shares server processes.
    let database = database.clone().with_purpose("doctor").pool_size(2);
    let client = database.connect().await?;
    let store = Store::new(&database, schema)?.unnamed_statements();
    // Asked once before, so that what it takes to connect is not taken for a difference of clocks.
    store.look_at_server().await?;
    let before = OffsetDateTime::now_utc();
    let look = store.look_at_server().await?;
    let after = OffsetDateTime::now_utc();
    let pooling = line::pooling(&store).await?;
    let mut findings = vec![
        Finding::ok("connection", format!("PostgreSQL {} at {}", look.version, database.place())),
        server::server(&look),
        server::clock(&look, before, after),
        server::connections(store.connections(&name).await?),
        line::pooler(pooling, &look, database.port()),
        line::wake_up(&database, &store, pooling).await,
        server::notifications(look.notification_queue_usage),
    ];
    findings.extend(server::horizon(&store.horizon_holders().await?, limits.held));
    findings.push(server::sight(&look));
    let lacking = store.lacking().await?;
    let inside = async {
        let status = migrate::status(&client, schema).await?;
        let mut findings = vec![schema_finding(status, schema)];
        if !matches!(status, Status::Missing) {
            findings.push(upkeep::privileges(&lacking, &look.role));
        }
        if matches!(status, Status::Current | Status::Ahead { .. }) {
            findings.extend(inside(&Admin { store: store.clone() }).await?);
        }
        Ok::<_, Error>(findings)
    };
    match inside.await {
        Ok(more) => findings.extend(more),
        // What it may not see is no reason to keep quiet about the rest.
        Err(error) if error.sqlstate() == Some(INSUFFICIENT_PRIVILEGE) => {
            findings.push(upkeep::privileges(&lacking, &look.role));
            let advice = "ask as a role that may read the tables";
            findings.push(Finding::problem("inside", format!("not looked at: {error}"), advice));
        }
        Err(error) => return Err(error),
    }
    let level = findings.iter().map(|finding| finding.level).max().unwrap_or(Level::Ok);
    Ok(Report { level, findings })
}

/// The SQLSTATE of a missing grant.
const INSUFFICIENT_PRIVILEGE: &str = "42501";

/// What can be seen inside a schema that is there.
async fn inside(admin: &Admin) -> Result<Vec<Finding>, Error> {
    let owed = admin.store.backlog().await?;
    let sessions = admin.store.sessions().await?;
    let subscriptions = admin.subscriptions().await?;
    let tables = admin.store.net_rows().await?;
    let vacuumed = admin.store.vacuumed().await?;
    let mut findings = vec![
        backlog::processes(&sessions),
        backlog::dead_processes(&sessions),
        backlog::lost_processes(&sessions),
        backlog::owed(&owed, &sessions),
        backlog::failing(&owed),
        backlog::poisoned(&owed),
        backlog::globs(&subscriptions),
        backlog::left_out(&subscriptions),
        backlog::filters(&subscriptions),
    ];
    findings.extend(upkeep::autovacuum(&vacuumed, &admin.store.schema));
    findings.push(upkeep::partitions(&tables, &admin.store.schema));
    findings.push(upkeep::net(&tables));
    Ok(findings)
}

fn repair(schema: &Schema) -> String {
    format!("run: {}", schema.migrate_command())
}

fn schema_finding(status: Status, schema: &Schema) -> Finding {
    let (name, needed) = (schema.name(), migrate::version());
    let finding = match status {
        Status::Current => {
            let found = format!("`{name}` and its functions are at version {needed}");
            return Finding::ok("schema", found).number("version", needed);
        }
        Status::Missing => {
            let found = format!("there is no Postrider in `{name}`");
            return Finding::problem("schema", found, repair(schema)).number("needed", needed);
        }
        Status::Behind { version } if version == needed => {
            let found = format!("the functions of `{name}` are older than this program");
            Finding::problem("schema", found, repair(schema)).number("version", version)
        }
        Status::Behind { version } => {
            let found = format!("`{name}` is at version {version}, this program needs {needed}");
            Finding::problem("schema", found, repair(schema)).number("version", version)
        }
        Status::Ahead { version } => {
            let found =
                format!("`{name}` is at version {version}, which is newer than this program");
            let advice = "run the newer program, or update this one";
            Finding::problem("schema", found, advice).number("version", version)
        }
    };
    finding.number("needed", needed)
}

/// So many names are told, then how many more there are.
const NAMES_MAX: usize = 10;

/// Names, or some of them and how many more.
fn some(names: &[String], separator: &str) -> String {
    let shown = names.iter().take(NAMES_MAX).cloned().collect::<Vec<_>>().join(separator);
    match names.len().saturating_sub(NAMES_MAX) {
        0 => shown,
        more => format!("{shown}{separator}and {more} more"),
    }
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
