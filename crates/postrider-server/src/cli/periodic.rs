//! `postrider periodic`: declare, list, show, pause, resume, run, delete.
//!
//! How it fails: exit code 2 for an expression or time zone that cannot be read, 1 for a name that
//! is missing, a kind that is not declared or a version that is too low. Invariant: a lower version
//! never overwrites.

use std::process::ExitCode;

use postrider::admin::{PeriodicDeclared, PeriodicInfo, PeriodicRun};
use postrider::{CatchUp, Periodic, Priority};
use serde::Serialize;

use super::context::Context;
use super::events::answered;
use super::fail::Failure;
use super::output::{Output, Table, safe, short, time_or_none};
use super::record::data;

const DECLARE_HELP: &str = "\
Five fields: minute, hour, day of month, month, day of week; with seconds first
there are six. One with a single minute and hour fires once on each local day,
also when clocks change; any other whenever the clock shows a time of it.

Examples:
  postrider periodic declare report.nightly report.build '30 2 * * *' --time-zone Europe/Berlin
  postrider periodic declare sweep cache.sweep '*/15 * * * *' --catch-up skip";

const LIST_HELP: &str = "Examples:\n  postrider periodic list\n  postrider periodic list --json";
const SHOW_HELP: &str = "Example:\n  postrider periodic show report.nightly";
const PAUSE_HELP: &str = "\
Its ticks pass until it is resumed.

Example:
  postrider periodic pause report.nightly";
const RESUME_HELP: &str = "Example:\n  postrider periodic resume report.nightly";
const RUN_HELP: &str = "\
A job beside the ticks, also while it is paused.

Example:
  postrider periodic run report.nightly";
const DELETE_HELP: &str = "\
The jobs that it enqueued stay.

Example:
  postrider periodic delete report.nightly";

/// What to do about periodic jobs.
#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// Declare a job that is enqueued at each tick of a cron expression.
    Declare(DeclareArgs),
    /// List the periodic jobs with their last and next ticks.
    #[command(after_help = LIST_HELP)]
    List,
    /// Show one.
    #[command(after_help = SHOW_HELP)]
    Show(NameArgs),
    /// Let its ticks pass.
    #[command(after_help = PAUSE_HELP)]
    Pause(NameArgs),
    /// Let a paused one go on with the next tick.
    #[command(after_help = RESUME_HELP)]
    Resume(NameArgs),
    /// Enqueue a job of it now.
    #[command(after_help = RUN_HELP)]
    Run(NameArgs),
    /// Delete one.
    #[command(after_help = DELETE_HELP)]
    Delete(NameArgs),
}

/// Which periodic job.
#[derive(Debug, clap::Args)]
pub(super) struct NameArgs {
    /// Its name.
    name: String,
}

/// The periodic job to declare.
#[derive(Debug, clap::Args)]
#[command(after_help = DECLARE_HELP)]
pub(super) struct DeclareArgs {
    /// Its unique name: letters, digits, `.`, `_` and `-`.
    name: String,
    /// The kind of its jobs; it must be declared.
    kind: String,
    /// The cron expression; quote it.
    cron: String,
    /// The time zone by its IANA name.
    #[arg(long, value_name = "ZONE", default_value = "UTC")]
    time_zone: String,
    /// The arguments of its jobs: JSON, or @FILE, or - for standard input.
    #[arg(long, value_name = "JSON", default_value = "{}", allow_hyphen_values = true)]
    arguments: String,
    /// Which of two due jobs goes first: high, normal, low or bulk. [default: what the kind says]
    #[arg(long)]
    priority: Option<Priority>,
    /// What becomes of ticks that nobody was there for: skip, once (one job for all) or all.
    #[arg(long, default_value = "once")]
    catch_up: CatchUp,
    /// The most ticks that are caught up at once, 1 to 1000.
    #[arg(long, value_name = "N", default_value_t = 100)]
    catch_up_max: i32,
    /// The version of the declaration; a lower one never overwrites.
    #[arg(long, value_name = "N", default_value_t = 1)]
    version: i32,
}

/// What became of a periodic job that was named.
#[derive(Debug, Serialize)]
struct Changed<'a> {
    name: &'a str,
    result: &'static str,
}

pub(super) async fn run(command: Command, context: &Context) -> Result<ExitCode, Failure> {
    let (name, result) = match command {
        Command::Declare(args) => return declare(args, context).await,
        Command::List => return list(context).await,
        Command::Show(NameArgs { name }) => return show(&name, context).await,
        Command::Run(NameArgs { name }) => return run_now(&name, context).await,
        Command::Pause(NameArgs { name }) => {
            context.admin().await?.pause_periodic(&name).await?;
            (name, "paused")
        }
        Command::Resume(NameArgs { name }) => {
            context.admin().await?.resume_periodic(&name).await?;
            (name, "resumed")
        }
        Command::Delete(NameArgs { name }) => {
            context.admin().await?.delete_periodic(&name).await?;
            (name, "deleted")
        }
    };
    let changed = Changed { name: &name, result };
    context.output.print(&changed, |changed| format!("{} {}", changed.result, changed.name))?;
    Ok(ExitCode::SUCCESS)
}

async fn declare(args: DeclareArgs, context: &Context) -> Result<ExitCode, Failure> {
    let name = args.name.clone();
    let mut new = Periodic::new(args.name, args.kind, args.cron)
        .and_then(|new| new.time_zone(args.time_zone))
        .map_err(Failure::usage)?
        .catch_up(args.catch_up, args.catch_up_max)
        .version(args.version);
    new.arguments = data(&args.arguments)?;
    new.priority = args.priority;
    new.check().map_err(Failure::usage)?;
    let result = context.admin().await?.declare_periodic(&new).await?;
    let told = match result {
        PeriodicDeclared::Declared => Ok(format!("declared {name}")),
        PeriodicDeclared::Unchanged => Ok(format!("{name} is declared like this already")),
        PeriodicDeclared::NewerStands(version) => {
            Err(Failure::operation(format!("{name} stands at version {version}"))
                .hint(format!("to overwrite it, give --version {version} or more")))
        }
    };
    answered(context, &result, told)
}

async fn list(context: &Context) -> Result<ExitCode, Failure> {
    let all = context.admin().await?.periodic_jobs().await?;
    context.output.print(&all, |all| {
        let head = ["NAME", "KIND", "CRON", "ZONE", "NEXT", "LAST", "STATE", "JOB", "ERROR"];
        let mut table = Table::new(context.output, &head);
        for info in all {
            table.row([
                info.name.clone(),
                info.kind.clone(),
                info.cron.clone(),
                info.time_zone.clone(),
                next(info),
                time_or_none(info.last_tick_at),
                info.last_state.map(|state| state.as_str().to_owned()).unwrap_or_default(),
                info.last_job_id.map(|id| id.to_string()).unwrap_or_default(),
                short(info.last_error.as_deref().unwrap_or_default(), 60),
            ]);
        }
        table.render("there is no periodic job yet; see: postrider periodic declare --help")
    })?;
    Ok(ExitCode::SUCCESS)
}

fn next(info: &PeriodicInfo) -> String {
    if info.paused_at.is_some() { "paused".to_owned() } else { time_or_none(info.next_due_at) }
}

async fn show(name: &str, context: &Context) -> Result<ExitCode, Failure> {
    let info = context.admin().await?.periodic_job(name).await?.ok_or_else(|| missing(name))?;
    context.output.print(&info, |info| told(info, context.output))?;
    Ok(ExitCode::SUCCESS)
}

fn told(info: &PeriodicInfo, output: Output) -> String {
    let kind = if info.kind_is_known { "" } else { " (not declared: its ticks pass)" };
    output.fields(&[
        ("periodic", info.name.clone()),
        ("kind", format!("{}{kind}", info.kind)),
        ("cron", info.cron.clone()),
        ("time zone", info.time_zone.clone()),
        ("arguments", safe(info.arguments.get())),
        ("catch up", format!("{}, {} at most", info.catch_up.as_str(), info.catch_up_max)),
        ("version", info.version.to_string()),
        ("paused", time_or_none(info.paused_at)),
        ("next", next(info)),
        ("last tick", time_or_none(info.last_tick_at)),
        ("last job", info.last_job_id.map(|id| id.to_string()).unwrap_or_default()),
        ("state", info.last_state.map(|state| output.word(state.as_str())).unwrap_or_default()),
        ("ended", time_or_none(info.last_finished_at)),
        ("error", safe(info.last_error.as_deref().unwrap_or_default())),
    ])
}

async fn run_now(name: &str, context: &Context) -> Result<ExitCode, Failure> {
    let result = context.admin().await?.run_periodic(name).await?;
    let told = match result {
        PeriodicRun::Enqueued(id) => Ok(format!("enqueued job {id}")),
        PeriodicRun::KindGone => Err(Failure::operation(format!("the kind of {name} is deleted"))
            .hint("see: postrider jobs kinds")),
        PeriodicRun::NotFound => Err(missing(name)),
    };
    answered(context, &result, told)
}

fn missing(name: &str) -> Failure {
    Failure::operation(format!("there is no periodic job `{name}`"))
        .hint("see: postrider periodic list")
}
