//! The command line: one variant for each command, one file for each group.
//!
//! How it fails: clap refuses what it cannot parse with exit code 2; a command's own failure is
//! written by [`main`] as `error: …` and `hint: …`, never as a debug dump. Invariants: standard
//! output carries results alone; everything else goes to standard error.

mod completions;
mod context;
mod doctor;
mod events;
mod fail;
mod jobs;
mod migrate;
mod output;
mod periodic;
mod record;
mod serve;
mod signals;
mod subscriptions;
mod tail;
mod types;
mod up;
mod verify;

use std::process::ExitCode;

use clap::parser::ValueSource;
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use context::{Context, Global};
use fail::Failure;

use crate::{bench, demo};

const AFTER_HELP: &str = "\
Start here:
  postrider demo                                   see what it does, nothing needed
  postrider up                                     a development server with its own PostgreSQL
  export DATABASE_URL=postgres://user:password@host/database
  postrider migrate                                install the schema
  postrider types declare order.placed
  postrider subscriptions create mail --type 'order.*'
  postrider record order.placed order:42 --data '{\"amount\": 12}'
  postrider tail --subscription mail

Exit codes: 0 done, 1 a negative answer or a failed operation (a bad line of
NDJSON is one), 2 usage, configuration, or input on the command line that is
refused, 3 database unreachable.";

const BENCH_HELP: &str = "\
Exit code 1 when a bar is not met.

Examples:
  postrider bench write
  postrider bench drain --rounds 9 --json | tail -1 | jq .metrics";

/// Transactional outbox, event bus and delivery engine on PostgreSQL.
#[derive(Debug, Parser)]
#[command(name = "postrider", version, after_help = AFTER_HELP)]
#[command(max_term_width = 100)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Watch a small shop record events, a worker die, and nothing get lost.
    Demo(demo::Args),
    /// Run a development server on a private PostgreSQL; its data are kept.
    Up(up::Args),
    /// Run the relay and maintenance until told to stop.
    Serve(serve::Args),
    /// Bring the schema up to date, or print it as SQL.
    Migrate(migrate::Args),
    /// Declare event types and list them.
    #[command(subcommand)]
    Types(types::Command),
    /// Create, list, pause, resume and delete subscriptions.
    #[command(subcommand)]
    Subscriptions(subscriptions::Command),
    /// Record one event, or many from NDJSON.
    Record(record::Args),
    /// Print a subscription's events, or run a command for each.
    Tail(tail::Args),
    /// List events, look at one, requeue or skip a poisoned one.
    #[command(subcommand)]
    Events(events::Command),
    /// List jobs, look at one, retry or cancel it or many; enqueue jobs and declare their kinds.
    #[command(subcommand)]
    Jobs(jobs::Command),
    /// Declare, list, pause, resume, run and delete periodic jobs.
    #[command(subcommand)]
    Periodic(periodic::Command),
    /// Look for everything that keeps Postrider from doing well.
    Doctor(doctor::Args),
    /// Check the signature of a webhook, and say why it does not verify.
    Verify(verify::Args),
    /// Print completions for a shell.
    Completions(completions::Args),
    /// Measure against hand-written SQL on the same server, as ratios; on a private server unless a
    /// database is named.
    #[command(after_help = BENCH_HELP)]
    Bench(bench::Args),
}

/// Parses, runs, and says how it ended.
pub(crate) fn main() -> ExitCode {
    if std::env::args_os().len() == 1 {
        // Whoever says nothing wants to know what can be said.
        eprint!("{}", Cli::command().render_help());
        return ExitCode::from(fail::USAGE);
    }
    let matches = Cli::command().get_matches();
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    if let (Command::Demo(_) | Command::Bench(_), Some(url)) = (&cli.command, cli.global.url())
        && let Err(failure) = context::check_scheme(url)
    {
        return failure.tell();
    }
    let names_database = matches.value_source("database_url") == Some(ValueSource::CommandLine);
    // These bring a runtime of their own, or need none.
    let command = match cli.command {
        Command::Demo(args) => return demo::main(args),
        Command::Completions(args) => return completions::run(&args),
        Command::Bench(args) => {
            return bench::main(&args, cli.global.database_url.as_deref(), cli.global.json);
        }
        Command::Up(_) if names_database => return up::needs_no_database().tell(),
        command => command,
    };
    cli.global.init_logs();
    let context = Context::new(cli.global);
    // One thread keeps the lines of `tail` in the order in which its jobs were claimed.
    let mut builder = match command {
        Command::Tail(_) => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    let outcome = builder
        .enable_all()
        .build()
        .map_err(|error| Failure::operation(format!("the runtime cannot start: {error}")))
        .and_then(|runtime| {
            let outcome = runtime.block_on(dispatch(command, &context));
            // A read of standard input may hang forever; it must not keep the process.
            runtime.shutdown_background();
            outcome
        });
    match outcome {
        Ok(code) => code,
        Err(failure) => failure.in_schema(&context.schema).tell(),
    }
}

async fn dispatch(command: Command, context: &Context) -> Result<ExitCode, Failure> {
    match command {
        Command::Demo(_) | Command::Bench(_) | Command::Completions(_) => Ok(ExitCode::SUCCESS),
        Command::Up(args) => up::run(args, context).await,
        Command::Serve(args) => serve::run(args, context).await,
        Command::Migrate(args) => migrate::run(args, context).await,
        Command::Types(command) => types::run(command, context).await,
        Command::Subscriptions(command) => subscriptions::run(command, context).await,
        Command::Record(args) => record::run(args, context).await,
        Command::Tail(args) => Box::pin(tail::run(args, context)).await,
        Command::Events(command) => events::run(command, context).await,
        Command::Jobs(command) => jobs::run(command, context).await,
        Command::Periodic(command) => periodic::run(command, context).await,
        Command::Doctor(args) => doctor::run(args, context).await,
        Command::Verify(args) => verify::run(args, context).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_holds_together() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_has_an_example_in_its_help() {
        fn check(command: &clap::Command) {
            let is_group = command.has_subcommands();
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            // The demo's help is its own.
            if !is_group && !["demo", "help"].contains(&command.get_name()) {
                assert!(help.contains("postrider "), "{} has no example", command.get_name());
            }
            command.get_subcommands().for_each(check);
        }
        check(&Cli::command());
    }
}
