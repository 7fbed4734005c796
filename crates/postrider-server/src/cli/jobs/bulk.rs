//! `postrider jobs bulk`: retry, cancel, move or purge many jobs.
//!
//! How it fails: exit code 2 for a state that the action cannot have, or when nothing says which
//! jobs are meant; an outage in the middle leaves the batches before it done. Invariant: a preview
//! changes nothing.

use std::process::ExitCode;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use postrider::admin::{BulkAction, BulkProgress, JobSelection, JobView};
use serde::Serialize;
use time::OffsetDateTime;

use crate::cli::context::Context;
use crate::cli::events::parse_since;
use crate::cli::fail::Failure;
use crate::cli::subscriptions::parse_span;

const RETRY_HELP: &str = "\
Those that wait for a later time run now. Discarded and cancelled ones come back
under their ids with at least one attempt more.

Examples:
  postrider jobs bulk retry --state discarded --subscription mail --dry-run
  postrider jobs bulk retry --error timeout";

const CANCEL_HELP: &str = "\
Those that wait are called off, those that run are asked to stop.

Example:
  postrider jobs bulk cancel --subscription mail --tenant acme --dry-run";

const MOVE_HELP: &str = "\
Those that wait get another due time.

Example:
  postrider jobs bulk move --in 2h --subscription mail --state retryable";

const PURGE_HELP: &str = "\
Finished jobs are forgotten before their retention is over.

Example:
  postrider jobs bulk purge --state completed --before 12h";

/// What to do with many jobs.
#[derive(Debug, clap::Subcommand)]
pub(in crate::cli) enum Command {
    /// Run those that wait now, and bring discarded and cancelled ones back.
    #[command(after_help = RETRY_HELP)]
    Retry(Selection),
    /// Call them off.
    #[command(after_help = CANCEL_HELP)]
    Cancel(Selection),
    /// Give those that wait another due time.
    #[command(after_help = MOVE_HELP)]
    Move(MoveArgs),
    /// Forget finished ones.
    #[command(after_help = PURGE_HELP)]
    Purge(Selection),
}

/// Which jobs, and when they are to run.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct MoveArgs {
    /// How long from now on they wait, such as 90s, 10m or 2h.
    #[arg(long = "in", value_name = "TIME", value_parser = parse_span)]
    wait: Duration,
    #[command(flatten)]
    selection: Selection,
}

/// Which jobs.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Selection {
    /// Only this state; repeat for more. [default: every state that the action can have]
    #[arg(long = "state", value_name = "STATE")]
    states: Vec<JobView>,
    /// Only this kind or subscription.
    #[arg(long, visible_alias = "kind", value_name = "NAME")]
    subscription: Option<String>,
    /// Only this tenant.
    #[arg(long)]
    tenant: Option<String>,
    /// Only those whose last error holds this text, in upper or lower case.
    #[arg(long, value_name = "TEXT")]
    error: Option<String>,
    /// Only those that were made before: a time, or an age such as 12h.
    #[arg(long, value_name = "WHEN", value_parser = parse_since)]
    before: Option<OffsetDateTime>,
    /// Mean all jobs, when nothing else says which.
    #[arg(long)]
    all: bool,
    /// Only count them.
    #[arg(long)]
    dry_run: bool,
}

/// What it came to.
#[derive(Debug, Serialize)]
struct Done {
    action: &'static str,
    dry_run: bool,
    jobs: i64,
}

pub(in crate::cli) async fn run(command: Command, context: &Context) -> Result<ExitCode, Failure> {
    let (name, action, selection) = match command {
        Command::Retry(selection) => ("retry", BulkAction::Retry, selection),
        Command::Cancel(selection) => ("cancel", BulkAction::Cancel, selection),
        Command::Purge(selection) => ("purge", BulkAction::Purge, selection),
        Command::Move(MoveArgs { wait, selection }) => {
            let run_at = OffsetDateTime::now_utc().checked_add(wait.try_into().unwrap_or_default());
            let run_at = run_at.ok_or_else(|| Failure::usage("--in is too far away"))?;
            ("move", BulkAction::Move { run_at }, selection)
        }
    };
    let (dry_run, all) = (selection.dry_run, selection.all);
    let selection = JobSelection {
        subscription: selection.subscription,
        states: selection.states,
        tenant: selection.tenant,
        error: selection.error,
        created_before: selection.before,
    };
    let JobSelection { subscription, states, tenant, error, created_before } = &selection;
    let says_which = !states.is_empty()
        || created_before.is_some()
        || [subscription, tenant, error].into_iter().any(Option::is_some);
    if !says_which && !all {
        return Err(Failure::usage("nothing says which jobs are meant")
            .hint("name a state, a subscription, a tenant, an error or an age, or give --all"));
    }
    let admin = context.admin().await?;
    let bar = bar();
    let show = |progress: BulkProgress| {
        bar.set_length(u64::try_from(progress.last_id).unwrap_or(0));
        bar.set_position(u64::try_from(progress.looked_up_to).unwrap_or(0));
        bar.set_message(format!("{} jobs", progress.jobs));
    };
    let jobs = match dry_run {
        true => admin.preview_jobs(action, &selection, show).await,
        false => admin.act_on_jobs(action, &selection, show).await,
    };
    bar.finish_and_clear();
    let done = Done { action: name, dry_run, jobs: jobs? };
    context.output.print(&done, |done| match done.dry_run {
        true => format!("{} would change {} jobs", done.action, done.jobs),
        false => format!("{}: {} jobs", done.action, done.jobs),
    })?;
    Ok(ExitCode::SUCCESS)
}

/// A bar over the ids. Hidden unless standard error is a terminal.
fn bar() -> ProgressBar {
    let bar = ProgressBar::new(0);
    if let Ok(style) = ProgressStyle::with_template("{bar:32} {percent:>3} %  {msg}  {eta} left") {
        bar.set_style(style);
    }
    bar
}
