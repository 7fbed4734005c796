//! `postrider jobs`: list, look at one, retry or cancel it or many, enqueue.
//!
//! How it fails: exit code 1 for a job that is not there or not in a state for it. Invariant: a
//! page ends with the way to the next.

mod bulk;
mod enqueue;
mod kinds;

use std::process::ExitCode;

use postrider::JobState;
use postrider::admin::{Cancelled, JobDetail, JobFilter, JobSummary, JobView, Page, Retried};

use super::context::Context;
use super::events::answered;
use super::fail::Failure;
use super::output::{Output, Table, safe, short, span, time, time_or_none};

const LIST_HELP: &str = "\
A pending job that is due later is shown as scheduled or, after a failed
attempt, as retryable.

Examples:
  postrider jobs list --state discarded --subscription mail
  postrider jobs list --state retryable --json | jq -r '.items[].id'";

const SHOW_HELP: &str = "Example:\n  postrider jobs show 4711";

const RETRY_HELP: &str = "\
A job that waits for its next attempt gets it now. A discarded or cancelled job
comes back under its id with at least one attempt more.

Examples:
  postrider jobs retry 4711
  postrider jobs list --state discarded --json | jq -r '.items[].id' |
    xargs -n1 postrider jobs retry";

const CANCEL_HELP: &str = "\
A waiting job is called off at once. A running one is asked to stop, which takes
some seconds.

Example:
  postrider jobs cancel 4711";

/// What to do about jobs.
#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// List jobs, newest first.
    List(ListArgs),
    /// Show one job with every attempt.
    #[command(after_help = SHOW_HELP)]
    Show(JobArgs),
    /// Run a job now that waits, or that was discarded or cancelled.
    #[command(after_help = RETRY_HELP)]
    Retry(JobArgs),
    /// Call a job off.
    #[command(after_help = CANCEL_HELP)]
    Cancel(JobArgs),
    /// Retry, cancel, move or purge many jobs at once.
    #[command(subcommand)]
    Bulk(bulk::Command),
    /// Enqueue a job of a declared kind.
    Enqueue(enqueue::Args),
    /// List the kinds of jobs with what waits of each.
    #[command(after_help = kinds::LIST_HELP)]
    Kinds,
    /// Declare a kind of jobs, so that jobs of it can be enqueued.
    Declare(kinds::DeclareArgs),
}

/// Which job.
#[derive(Debug, clap::Args)]
pub(super) struct JobArgs {
    /// Its id.
    #[arg(value_name = "ID", value_parser = parse_id)]
    id: i64,
}

/// Which jobs.
#[derive(Debug, clap::Args)]
#[command(after_help = LIST_HELP)]
pub(super) struct ListArgs {
    /// Only this state: pending, scheduled, retryable, running, completed, discarded or cancelled.
    #[arg(long)]
    state: Option<JobView>,
    /// Only this subscription.
    #[arg(long, value_name = "NAME")]
    subscription: Option<String>,
    /// Only this queue.
    #[arg(long)]
    queue: Option<String>,
    /// Only this tenant.
    #[arg(long)]
    tenant: Option<String>,
    /// Only those below this id: the next page.
    #[arg(long, value_name = "ID", value_parser = parse_id)]
    before: Option<i64>,
    /// How many at most, 1 to 1000.
    #[arg(long, value_name = "N", default_value_t = 50)]
    #[arg(value_parser = clap::value_parser!(i64).range(1..=1000))]
    limit: i64,
}

pub(super) async fn run(command: Command, context: &Context) -> Result<ExitCode, Failure> {
    match command {
        Command::List(args) => list(args, context).await,
        Command::Show(JobArgs { id }) => show(id, context).await,
        Command::Retry(JobArgs { id }) => retry(id, context).await,
        Command::Cancel(JobArgs { id }) => cancel(id, context).await,
        Command::Bulk(command) => bulk::run(command, context).await,
        Command::Enqueue(args) => enqueue::run(args, context).await,
        Command::Kinds => kinds::list(context).await,
        Command::Declare(args) => kinds::declare(args, context).await,
    }
}

async fn list(args: ListArgs, context: &Context) -> Result<ExitCode, Failure> {
    let filter = JobFilter {
        state: args.state,
        subscription: args.subscription,
        queue: args.queue,
        tenant: args.tenant,
        before: args.before,
        limit: args.limit,
    };
    let admin = context.admin().await?;
    let page = admin.jobs(&filter).await?;
    // Jobs outlive a deleted subscription, so its name is looked up only when there are none.
    if let (true, Some(name)) = (page.items.is_empty(), &filter.subscription)
        && admin.subscription(name).await?.is_none()
    {
        return Err(Failure::operation(format!("there is no subscription `{name}`"))
            .hint("see: postrider subscriptions list"));
    }
    let JobFilter { state, subscription, queue, tenant, before, limit: _ } = &filter;
    let asks_for_all = state.is_none()
        && before.is_none()
        && [subscription, queue, tenant].into_iter().all(Option::is_none);
    let empty = if asks_for_all { "no job yet" } else { "no job matches" };
    context.output.print(&page, |page| table(page, empty, context.output))?;
    Ok(ExitCode::SUCCESS)
}

fn table(page: &Page<JobSummary>, empty: &str, output: Output) -> String {
    let head =
        ["ID", "STATE", "SUBSCRIPTION", "TRIES", "WHEN", "TYPE", "SUBJECT", "TENANT", "ERROR"];
    let mut table = Table::new(output, &head);
    for job in &page.items {
        table.row([
            job.id.to_string(),
            job.state.to_string(),
            job.subscription.clone(),
            tries(job),
            when(job),
            job.event_type.clone().unwrap_or_default(),
            short(job.subject.as_deref().unwrap_or_default(), 40),
            job.tenant.clone(),
            short(job.last_error.as_deref().unwrap_or_default(), 60),
        ]);
    }
    let mut text = table.render(empty);
    if let Some(next) = page.next {
        text.push_str(&format!("\nmore: --before {next}\n"));
    }
    text
}

fn parse_id(text: &str) -> Result<i64, &'static str> {
    text.parse().map_err(|_| "a job id is a number")
}

fn tries(job: &JobSummary) -> String {
    format!("{}/{}", job.attempt, job.attempts_max)
}

/// The time that matters in its state.
fn when(job: &JobSummary) -> String {
    let (word, at) = match job.state {
        JobView::Pending | JobView::Scheduled | JobView::Retryable => ("due", job.due_at),
        JobView::Running => ("since", job.started_at),
        JobView::Completed | JobView::Discarded | JobView::Cancelled => ("ended", job.finished_at),
    };
    at.map(|at| format!("{word} {}", time(at))).unwrap_or_default()
}

async fn show(id: i64, context: &Context) -> Result<ExitCode, Failure> {
    let detail = context.admin().await?.job(id).await?.ok_or_else(|| not_found(id))?;
    context.output.print(&detail, |detail| told(detail, context.output))?;
    Ok(ExitCode::SUCCESS)
}

fn told(detail: &JobDetail, output: Output) -> String {
    let job = &detail.summary;
    let deleted = if job.subscription_deleted { " (deleted)" } else { "" };
    let event = match (job.event_seq, &job.event_type) {
        (Some(seq), Some(kind)) => {
            let subject = safe(job.subject.as_deref().unwrap_or_default());
            format!("{seq}: {kind} about {subject}")
        }
        (Some(seq), None) => format!("{seq} (over its retention)"),
        (None, _) => String::new(),
    };
    let is_final = job.state.stored().is_final();
    let mut text = output.fields(&[
        ("job", job.id.to_string()),
        ("state", output.word(job.state.as_str())),
        ("subscription", format!("{}{deleted}", job.subscription)),
        ("queue", job.queue.clone()),
        ("origin", job.origin.clone()),
        ("tenant", safe(&job.tenant)),
        ("event", event),
        (
            "arguments",
            safe(detail.arguments.as_deref().map_or("", serde_json::value::RawValue::get)),
        ),
        ("key", safe(detail.key.as_deref().unwrap_or_default())),
        ("tick", time_or_none(detail.tick_at)),
        ("tries", tries(job)),
        ("created", time(job.created_at)),
        ("due", if is_final { String::new() } else { time_or_none(job.due_at) }),
        ("ended", time_or_none(job.finished_at)),
        ("asked to stop", time_or_none(job.cancel_requested_at)),
        ("worker", safe(job.worker.as_deref().unwrap_or_default())),
        ("output", safe(detail.output.as_deref().map_or("", serde_json::value::RawValue::get))),
        ("error", safe(job.last_error.as_deref().unwrap_or_default())),
    ]);
    if detail.attempts.is_empty() {
        return text;
    }
    let mut table = Table::new(output, &["TRY", "STARTED", "TOOK", "OUTCOME", "WORKER", "ERROR"]);
    for attempt in &detail.attempts {
        let took = attempt.started_at.zip(attempt.finished_at).map(|(start, end)| {
            span(i64::try_from((end - start).whole_milliseconds()).unwrap_or(i64::MAX))
        });
        table.row([
            attempt.attempt.to_string(),
            time_or_none(attempt.started_at),
            took.unwrap_or_default(),
            attempt.outcome.clone(),
            attempt.worker.clone().unwrap_or_default(),
            short(attempt.error.as_deref().unwrap_or_default(), 200),
        ]);
    }
    text.push('\n');
    text.push_str(&table.render(""));
    text
}

async fn retry(id: i64, context: &Context) -> Result<ExitCode, Failure> {
    let result = context.admin().await?.retry_job(id).await?;
    answered(
        context,
        &result,
        match result {
            Retried::DueNow => Ok(format!("job {id} is due now")),
            Retried::WasDue => Ok(format!("job {id} is due already and waits for a worker")),
            Retried::Revived => Ok(format!("job {id} is pending again")),
            Retried::Conflict(JobState::Running) => {
                Err(Failure::operation(format!("job {id} is running")))
            }
            Retried::Conflict(state) => {
                let word = state.as_str();
                Err(Failure::operation(format!("job {id} is {word} and is not run again")))
            }
            Retried::EventGone => {
                Err(Failure::operation(format!("the event of job {id} is over its retention")))
            }
            Retried::SubscriptionDeleted => {
                Err(Failure::operation(format!("the subscription of job {id} is deleted")))
            }
            Retried::NotFound => Err(not_found(id)),
        },
    )
}

async fn cancel(id: i64, context: &Context) -> Result<ExitCode, Failure> {
    let result = context.admin().await?.cancel_job(id).await?;
    answered(
        context,
        &result,
        match result {
            Cancelled::Cancelled => Ok(format!("cancelled job {id}")),
            Cancelled::AskedToStop => {
                Ok(format!("job {id} is running and was asked to stop; that takes some seconds"))
            }
            Cancelled::AlreadyFinished(state) => {
                let word = state.as_str();
                Err(Failure::operation(format!("job {id} is {word} already")))
            }
            Cancelled::NotFound => Err(not_found(id)),
        },
    )
}

fn not_found(id: i64) -> Failure {
    Failure::operation(format!("there is no job {id}"))
        .hint("it never was, or is over its retention; see: postrider jobs list")
}
