//! `postrider serve`: relay and maintenance without handlers.
//!
//! How it fails: exit code 2 for a schema that is missing or a pool that is too small, 3 when the
//! database does not answer at the start. Once it runs, an outage is waited out; exit code 1 when a
//! task of the engine ended by itself, which is a bug. Invariant: SIGTERM
//! and SIGINT end it in order, with exit code 0; a second one ends it at once.

use std::process::ExitCode;

use postrider::{Database, Engine, EngineBuilder, Handle};
use serde::Serialize;

use super::context::{Context, check_scheme};
use super::fail::Failure;
use super::signals::Signals;

const AFTER_HELP: &str = "\
Turns owed events into jobs, takes jobs of dead processes back, makes and drops
partitions. Handlers run elsewhere: in your program, or in `postrider tail`. Any
number of these may run at once.

Examples:
  postrider serve
  postrider serve --migrate -v
  postrider serve --poll-only                    behind a pooler in transaction mode
  postrider serve --session-url postgres://…     with a direct way beside the pooler";

/// How to serve.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) engine: EngineArgs,
    /// Bring the schema up to date first.
    #[arg(long)]
    migrate: bool,
}

/// How to run an engine.
#[derive(Debug, clap::Args)]
pub(super) struct EngineArgs {
    /// How many pooled connections there may be, beside the two that listen and lock.
    #[arg(long, value_name = "N", default_value_t = 8)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) pool_size: u16,
    /// Neither listen nor keep session locks: for a pooler in transaction mode. Events are then
    /// found by looking every second.
    #[arg(long, conflicts_with = "session_url")]
    poll_only: bool,
    /// The direct way to the same database, for the two connections that listen and lock, when
    /// DATABASE_URL leads through a pooler in transaction mode.
    #[arg(long, env = "POSTRIDER_SESSION_URL", hide_env_values = true, value_name = "URL")]
    session_url: Option<String>,
}

/// The one line that says that everything runs.
#[derive(Debug, Serialize)]
pub(super) struct Ready<'a> {
    ready: bool,
    schema: &'a str,
    pub(super) database_url: Option<&'a str>,
}

impl EngineArgs {
    /// The database with the pool that was asked for.
    pub(super) fn database(&self, context: &Context) -> Result<Database, Failure> {
        Ok(context.database()?.pool_size(usize::from(self.pool_size)))
    }

    /// An engine that listens where it was told to, or not at all.
    pub(super) fn reaches(&self, builder: EngineBuilder) -> Result<EngineBuilder, Failure> {
        if self.poll_only {
            return Ok(builder.poll_only());
        }
        let Some(url) = self.session_url.as_deref().filter(|url| !url.is_empty()) else {
            return Ok(builder);
        };
        check_scheme(url).map_err(|failure| failure.prefixed("--session-url: "))?;
        Ok(builder.session_database(Database::new(url)?))
    }
}

pub(super) async fn run(args: Args, context: &Context) -> Result<ExitCode, Failure> {
    let signals = Signals::new();
    let handle = start(&args.engine, args.migrate, context).await?;
    ready(context, None, "relay and maintenance run; stop with Ctrl-C")?;
    handle.run_until(signals.first()).await?;
    Ok(ExitCode::SUCCESS)
}

/// Starts an engine without handlers.
pub(super) async fn start(
    args: &EngineArgs,
    migrate: bool,
    context: &Context,
) -> Result<Handle, Failure> {
    let mut builder = Engine::builder(args.database(context)?).schema(context.schema.clone());
    if migrate {
        builder = builder.migrate_on_start();
    }
    builder = args.reaches(builder)?;
    Ok(builder.start().await?)
}

/// Says that everything runs: one line, whatever the form.
pub(super) fn ready(
    context: &Context,
    database_url: Option<&str>,
    words: &str,
) -> Result<(), Failure> {
    use std::io::Write as _;
    let ready = Ready { ready: true, schema: context.schema.name(), database_url };
    let line = match context.output.json {
        true => serde_json::to_string(&ready).map_err(std::io::Error::other)?,
        false => format!("ready: {words}"),
    };
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()?;
    Ok(())
}
