//! `postrider migrate`: brings the schema up to date, prints it, or says where it stands.
//!
//! How it fails: exit code 2 for a schema that a newer program migrated, 1 for a step that failed;
//! the steps before it stay. Invariant: any number of these may run at once.

use std::process::ExitCode;

use postrider::migrate::{self, Status};
use serde::Serialize;

use super::context::Context;
use super::fail::{FAILED, Failure};

const AFTER_HELP: &str = "\
Examples:
  postrider migrate                              install or update; safe to repeat
  postrider migrate --status                     exit code 1 when there is something to do
  postrider migrate --schema outbox              in a schema of another name
  postrider migrate --print | psql -v ON_ERROR_STOP=1 \"$DATABASE_URL\"
                                                 the same through a tool of your own";

/// What to do about the schema.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Args {
    /// Print all of it as SQL instead of running it; needs no database.
    #[arg(long, conflicts_with = "status")]
    print: bool,
    /// Only say where the schema stands.
    #[arg(long)]
    status: bool,
}

/// Where the schema stands.
#[derive(Debug, Serialize)]
struct Standing<'a> {
    schema: &'a str,
    status: &'static str,
    version: Option<i32>,
    program_version: i32,
}

/// What was done.
#[derive(Debug, Serialize)]
struct Migrated<'a> {
    schema: &'a str,
    applied: Vec<String>,
    version: i32,
}

pub(super) async fn run(args: Args, context: &Context) -> Result<ExitCode, Failure> {
    let schema = &context.schema;
    if args.print {
        let text = migrate::print(schema);
        context.output.print(&text, Clone::clone)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut client = context.database()?.connect().await?;
    if args.status {
        let status = migrate::status(&client, schema).await?;
        return standing(status, context);
    }
    let applied = migrate::apply(&mut client, schema).await?;
    let done = Migrated { schema: schema.name(), applied, version: migrate::version() };
    context.output.print(&done, |done| match done.applied.as_slice() {
        [] => format!("`{}` is up to date (version {})", done.schema, done.version),
        steps => format!("migrated `{}`: {}", done.schema, steps.join(", ")),
    })?;
    Ok(ExitCode::SUCCESS)
}

fn standing(status: Status, context: &Context) -> Result<ExitCode, Failure> {
    let (word, version) = match status {
        Status::Missing => ("missing", None),
        Status::Behind { version } => ("behind", Some(version)),
        Status::Current => ("current", Some(migrate::version())),
        Status::Ahead { version } => ("ahead", Some(version)),
    };
    let name = context.schema.name();
    let program_version = migrate::version();
    let command = context.schema.migrate_command();
    let standing = Standing { schema: name, status: word, version, program_version };
    context.output.print(&standing, |_| match status {
        Status::Missing => format!("there is no Postrider in `{name}` (run: {command})"),
        Status::Behind { version } => format!(
            "`{name}` is behind: version {version}, this program has {program_version} \
             (run: {command})"
        ),
        Status::Current => format!("`{name}` is up to date (version {program_version})"),
        Status::Ahead { version } => format!(
            "`{name}` is ahead: version {version}, this program knows {program_version} \
             (run the newer program)"
        ),
    })?;
    Ok(match status {
        Status::Current => ExitCode::SUCCESS,
        _ => ExitCode::from(FAILED),
    })
}
