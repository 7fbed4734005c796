//! Migrations: versioned, embedded, and printable for one's own tool.
//!
//! How it fails: a step that fails leaves nothing behind, since each is one transaction; a schema
//! newer than this program is refused with [`ErrorKind::Schema`]. Invariants: one process migrates
//! at a time, under an advisory lock of the schema; nothing is granted to PUBLIC; functions are
//! replaced only by a program whose set of functions is newer.

use tokio_postgres::{Client, GenericClient, Row, Transaction};

use crate::{Error, ErrorKind, Schema};

/// A step, applied once, in order.
struct Migration {
    version: i32,
    name: &'static str,
    text: &'static str,
}

const MIGRATIONS: &[Migration] = &[
    Migration { version: 1, name: "core", text: include_str!("../sql/migrations/0001_core.sql") },
    Migration {
        version: 2,
        name: "application_jobs",
        text: include_str!("../sql/migrations/0002_application_jobs.sql"),
    },
    Migration { version: 3, name: "watch", text: include_str!("../sql/migrations/0003_watch.sql") },
];

/// The functions, replaced as a whole.
const FUNCTIONS: &[&str] = &[
    include_str!("../sql/functions/record.sql"),
    include_str!("../sql/functions/enqueue.sql"),
    include_str!("../sql/functions/settle.sql"),
    include_str!("../sql/functions/wake.sql"),
    include_str!("../sql/functions/maintenance.sql"),
    include_str!("../sql/functions/watch.sql"),
];

/// Counts changes of [`FUNCTIONS`]: raise it with every change, so that an older program does not
/// put its own back.
const FUNCTIONS_REVISION: i32 = 3;

/// The text of [`FUNCTIONS`] at this revision, as [`crate::schema::fnv1a`] hashes it.
#[cfg(test)]
const FUNCTIONS_HASH: u64 = 0x1421_825e_1128_a27d;

/// How many days of partitions are made ahead.
pub(crate) const PARTITION_DAYS_AHEAD: i32 = 7;

/// Where a schema stands against this program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// There is no such schema, or Postrider was never installed in it.
    Missing,
    /// It is at `version`, and this program has newer steps.
    Behind {
        /// The last step that was applied.
        version: i32,
    },
    /// Nothing to do.
    Current,
    /// A newer program migrated it to `version`.
    Ahead {
        /// The last step that was applied.
        version: i32,
    },
}

/// The version of the schema that this program was written for.
#[must_use]
pub fn version() -> i32 {
    MIGRATIONS.last().map_or(0, |migration| migration.version)
}

/// Where `schema` stands.
///
/// # Errors
/// [`ErrorKind::Database`] or [`ErrorKind::Unreachable`] when it cannot be looked at.
pub async fn status(client: &Client, schema: &Schema) -> Result<Status, Error> {
    let text = schema.render(include_str!("../sql/migrate/status.sql"));
    let exists: bool = only_row(client, &text).await?.try_get(0)?;
    if !exists {
        return Ok(Status::Missing);
    }
    let text = schema.render(include_str!("../sql/migrate/version.sql"));
    let row = only_row(client, &text).await?;
    let (found, revision): (i32, i32) = (row.try_get("version")?, row.try_get("revision")?);
    Ok(match found.cmp(&version()) {
        std::cmp::Ordering::Less => Status::Behind { version: found },
        std::cmp::Ordering::Greater => Status::Ahead { version: found },
        std::cmp::Ordering::Equal if revision < FUNCTIONS_REVISION => {
            Status::Behind { version: found }
        }
        std::cmp::Ordering::Equal => Status::Current,
    })
}

/// Refuses a schema that is missing, older or newer than this program.
///
/// # Errors
/// [`ErrorKind::Schema`] with what to do; as [`status`] for the rest.
pub async fn require_current(client: &Client, schema: &Schema) -> Result<(), Error> {
    let name = schema.name();
    let message = match status(client, schema).await? {
        Status::Current => return Ok(()),
        Status::Ahead { version } => return Err(newer(schema, version)),
        Status::Missing => format!("there is no Postrider in the schema `{name}`"),
        Status::Behind { version: found } if found == version() => {
            format!("the functions in the schema `{name}` are older than this program")
        }
        Status::Behind { version: found } => {
            let needed = version();
            format!("the schema `{name}` is at version {found}, this program needs {needed}")
        }
    };
    Err(Error::new(ErrorKind::Schema, message)
        .with_hint(format!("run: {}", schema.migrate_command())))
}

/// Brings `schema` to the version of this program, creating it where it is missing. Safe when
/// several processes do it at once. Returns the names of the steps that were applied.
///
/// # Errors
/// [`ErrorKind::Schema`] when the schema is newer than this program; [`ErrorKind::Database`] when
/// a step fails, in which case the steps before it stay and nothing of it does.
pub async fn apply(client: &mut Client, schema: &Schema) -> Result<Vec<String>, Error> {
    let mut applied = Vec::new();
    begin(client, schema).await?;
    for migration in MIGRATIONS {
        let transaction = locked(client, schema).await?;
        refuse_newer(&transaction, schema).await?;
        if current_version(&transaction, schema).await? >= migration.version {
            continue;
        }
        transaction.batch_execute(&schema.render(migration.text)).await.map_err(|error| {
            let message = format!("migration {} ({}) failed", migration.version, migration.name);
            Error::new(ErrorKind::Database, message).with_source(Error::from(error))
        })?;
        transaction.batch_execute(&note(migration, schema)).await?;
        transaction.commit().await?;
        applied.push(format!("{:04}_{}", migration.version, migration.name));
    }
    if replace_functions(client, schema).await? {
        applied.push(format!("functions, revision {FUNCTIONS_REVISION}"));
    }
    Ok(applied)
}

/// All of it as plain SQL, for a tool of one's own. Running it on a fresh database gives what
/// [`apply`] gives.
#[must_use]
pub fn print(schema: &Schema) -> String {
    let mut text = String::from("begin;\n");
    text.push_str(&schema.render(include_str!("../sql/migrate/begin.sql")));
    for migration in MIGRATIONS {
        text.push_str(&schema.render(migration.text));
        text.push_str(&note(migration, schema));
    }
    for functions in FUNCTIONS {
        text.push_str(&schema.render(functions));
    }
    text.push_str(&finish(schema));
    text.push_str("commit;\n");
    text
}

/// The only row of a statement, which is parsed without a name: behind a pooler in transaction mode
/// names are left over from others, or gone.
async fn only_row<C: GenericClient + Sync>(client: &C, text: &str) -> Result<Row, Error> {
    let rows = client.query_typed(text, &[]).await?;
    let none = || Error::new(ErrorKind::Bug, "a look at the schema returned no row");
    rows.into_iter().next().ok_or_else(none)
}

/// Creates the schema and the table of steps.
async fn begin(client: &mut Client, schema: &Schema) -> Result<(), Error> {
    let transaction = locked(client, schema).await?;
    transaction.batch_execute(&schema.render(include_str!("../sql/migrate/begin.sql"))).await?;
    transaction.commit().await?;
    Ok(())
}

/// A transaction that no other migration runs beside.
async fn locked<'a>(client: &'a mut Client, schema: &Schema) -> Result<Transaction<'a>, Error> {
    // Whoever waited for the lock must see what its holder committed.
    let level = tokio_postgres::IsolationLevel::ReadCommitted;
    let transaction = client.build_transaction().isolation_level(level).start().await?;
    let lock = include_str!("../sql/migrate/lock.sql")
        .replace("{migrate_key}", &schema.key("migrate").to_string());
    transaction.batch_execute(&lock).await?;
    Ok(transaction)
}

async fn current_version(transaction: &Transaction<'_>, schema: &Schema) -> Result<i32, Error> {
    let text = schema.render(include_str!("../sql/migrate/version.sql"));
    Ok(only_row(transaction, &text).await?.try_get("version")?)
}

async fn refuse_newer(transaction: &Transaction<'_>, schema: &Schema) -> Result<(), Error> {
    let found = current_version(transaction, schema).await?;
    if found <= version() {
        return Ok(());
    }
    Err(newer(schema, found))
}

/// The error for a schema that a newer program migrated.
pub(crate) fn newer(schema: &Schema, found: i32) -> Error {
    let message = format!(
        "the schema `{}` is at version {found}, this program knows versions up to {}",
        schema.name(),
        version()
    );
    Error::new(ErrorKind::Schema, message).with_hint("run the newer program, or update this one")
}

/// Replaces the functions when this program's are newer. Returns whether it did.
async fn replace_functions(client: &mut Client, schema: &Schema) -> Result<bool, Error> {
    let transaction = locked(client, schema).await?;
    let text = schema.render(include_str!("../sql/migrate/version.sql"));
    let revision: i32 = only_row(&transaction, &text).await?.try_get("revision")?;
    if revision >= FUNCTIONS_REVISION {
        return Ok(false);
    }
    for functions in FUNCTIONS {
        transaction.batch_execute(&schema.render(functions)).await?;
    }
    transaction.batch_execute(&finish(schema)).await?;
    transaction.commit().await?;
    Ok(true)
}

/// The statement that records a step.
fn note(migration: &Migration, schema: &Schema) -> String {
    let text = include_str!("../sql/migrate/note.sql")
        .replace("{version}", &migration.version.to_string())
        .replace("{name}", migration.name);
    schema.render(&text)
}

/// The statements that close a set of functions: revision, first partitions, no grants to PUBLIC.
fn finish(schema: &Schema) -> String {
    let text = include_str!("../sql/migrate/finish.sql")
        .replace("{revision}", &FUNCTIONS_REVISION.to_string())
        .replace("{days_ahead}", &PARTITION_DAYS_AHEAD.to_string());
    schema.render(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_do_not_change_without_a_new_revision() {
        let found = crate::schema::fnv1a(FUNCTIONS.concat().as_bytes());
        assert_eq!(
            found, FUNCTIONS_HASH,
            "sql/functions has changed: raise FUNCTIONS_REVISION (now {FUNCTIONS_REVISION}) by \
             one, and set FUNCTIONS_HASH to {found:#018x}"
        );
    }

    #[test]
    fn steps_are_numbered_without_gaps() {
        for (place, migration) in MIGRATIONS.iter().enumerate() {
            assert_eq!(usize::try_from(migration.version), Ok(place + 1), "{}", migration.name);
        }
    }
}
