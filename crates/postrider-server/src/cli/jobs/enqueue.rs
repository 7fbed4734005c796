//! `postrider jobs enqueue`: one job of a declared kind.
//!
//! How it fails: exit code 2 for what cannot be a job, 1 for a kind that is not declared.
//! Invariant: an id is printed only when its job is committed.

use std::process::ExitCode;
use std::time::Duration;

use postrider::{Enqueued, NewJob, Priority, Unique};

use crate::cli::context::Context;
use crate::cli::fail::Failure;
use crate::cli::record::data;
use crate::cli::subscriptions::parse_span;

const AFTER_HELP: &str = "\
A service enqueues jobs in its own transactions, through the library or select
postrider.enqueue(…); this is for trying out and scripts.

Examples:
  postrider jobs enqueue mail.receipt --arguments '{\"order_id\": 42}'
  postrider jobs enqueue report.build --arguments @report.json --delay 10m --priority low
  postrider jobs enqueue index.refresh --arguments '{\"doc\": 7}' --unique-by doc";

/// What to enqueue.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(in crate::cli) struct Args {
    /// The kind; it must be declared.
    kind: String,
    /// The arguments: JSON, or @FILE, or - for standard input.
    #[arg(long, value_name = "JSON", default_value = "{}", allow_hyphen_values = true)]
    arguments: String,
    /// How long it waits at least, such as 90s, 10m or 2h.
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    delay: Option<Duration>,
    /// Which of two due jobs goes first: high, normal, low or bulk. [default: what the kind says]
    #[arg(long)]
    priority: Option<Priority>,
    /// How often it is tried, 1 to 1000. [default: what the kind says]
    #[arg(long, value_name = "N")]
    max_attempts: Option<i32>,
    /// Its owner.
    #[arg(long)]
    tenant: Option<String>,
    /// What it is about.
    #[arg(long)]
    key: Option<String>,
    /// Enqueue it only if no job waits with the same value of this argument; repeat for more, or *
    /// for all arguments.
    #[arg(long, value_name = "NAME")]
    unique_by: Vec<String>,
}

pub(in crate::cli) async fn run(args: Args, context: &Context) -> Result<ExitCode, Failure> {
    let mut job = NewJob::new(args.kind).map_err(Failure::usage)?;
    job.arguments = data(&args.arguments)?;
    job.delay = args.delay;
    job.priority = args.priority;
    job.max_attempts = args.max_attempts;
    job.tenant = args.tenant.unwrap_or_default();
    job.key = args.key;
    job.unique = (!args.unique_by.is_empty()).then(|| Unique::by(args.unique_by));
    job.check().map_err(Failure::usage)?;
    let enqueued = context.admin().await?.enqueue(&job).await?;
    context.output.print(&enqueued, |enqueued| match enqueued {
        Enqueued::Inserted(id) => format!("enqueued job {id}"),
        Enqueued::Exists(id) | Enqueued::Replaced(id) => {
            format!("job {id} waits already and stands for it")
        }
    })?;
    Ok(ExitCode::SUCCESS)
}
