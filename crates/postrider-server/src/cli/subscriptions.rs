//! `postrider subscriptions`: create, list, pause, resume, delete.
//!
//! How it fails: exit code 2 for a value that breaks a rule, 1 for a name that is taken or missing,
//! a glob that matches no declared type, a filter that PostgreSQL cannot read. Invariant: a refused
//! subscription has changed nothing.

use std::process::ExitCode;
use std::time::Duration;

use postrider::admin::SubscriptionInfo;
use postrider::{Backoff, Policy, Priority, Source, Subscription};
use serde::Serialize;

use super::context::{self, Context};
use super::fail::Failure;
use super::output::{Table, safe, span};

const CREATE_HELP: &str = "\
It gets the events that are owed when it is created, and all later ones. Globs:
* is exactly one segment, ** any number; quote them, or the shell expands them.

Examples:
  postrider subscriptions create mail --type order.placed --type 'order.item.*'
  postrider subscriptions create search.index --type 'corpus.**' --coalesce
  postrider subscriptions create big --type order.placed --filter '$.data.amount > 1000'
  postrider subscriptions create slow --type '**' --queue bulk --max-attempts 5 --backoff 5s,5m,2h";

const LIST_HELP: &str = "\
WAITING counts pending jobs, up to 10000; OLDEST is how long the first of them
has been due.

Examples:
  postrider subscriptions list
  postrider subscriptions list --json | jq '.[] | {name, waiting: .lag.waiting.at_least}'";

const PAUSE_HELP: &str = "\
Its jobs wait until it is resumed; running ones finish.

Example:
  postrider subscriptions pause mail";

const RESUME_HELP: &str = "Example:\n  postrider subscriptions resume mail";

const DELETE_HELP: &str = "\
It gets no more events, and a running engine cancels its waiting jobs. The name
is free again.

Example:
  postrider subscriptions delete mail";

/// What to do about subscriptions.
#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// Create a durable subscription.
    Create(Box<CreateArgs>),
    /// List the subscriptions with what waits for each.
    #[command(after_help = LIST_HELP)]
    List,
    /// Keep its jobs waiting.
    #[command(after_help = PAUSE_HELP)]
    Pause(NameArgs),
    /// Let a paused one go on.
    #[command(after_help = RESUME_HELP)]
    Resume(NameArgs),
    /// Delete one and cancel its jobs.
    #[command(after_help = DELETE_HELP)]
    Delete(NameArgs),
}

/// Which subscription.
#[derive(Debug, clap::Args)]
pub(super) struct NameArgs {
    /// Its name.
    name: String,
}

/// The subscription to create.
#[derive(Debug, clap::Args)]
#[command(after_help = CREATE_HELP)]
pub(super) struct CreateArgs {
    /// Its unique name: letters, digits, `.`, `_` and `-`.
    name: String,
    /// A glob over types that it wants; repeat for more.
    #[arg(long = "type", required = true, value_name = "GLOB", value_parser = context::glob)]
    types: Vec<postrider::Glob>,
    /// Only the events of this tenant.
    #[arg(long)]
    tenant: Option<String>,
    /// Only the events for which this JSON path yields neither false nor null first. It sees type,
    /// subject, key, tenant, data and headers.
    #[arg(long, value_name = "JSONPATH")]
    filter: Option<String>,
    /// Let one job stand for all events of a subject that are fanned out together: for handlers
    /// that read current state.
    #[arg(long)]
    coalesce: bool,
    /// The queue whose limit its jobs share.
    #[arg(long, default_value = "default")]
    queue: String,
    /// How often a job is tried before it is discarded, 1 to 1000.
    #[arg(long, value_name = "N", default_value_t = 20)]
    max_attempts: i32,
    /// How long one attempt may take, in milliseconds, 1 to 86400000.
    #[arg(long, value_name = "MS", default_value_t = 60_000)]
    timeout_ms: i64,
    /// Which of two due jobs goes first.
    #[arg(long, default_value = "normal", value_parser = ["high", "normal", "low", "bulk"])]
    priority: String,
    /// The waits between attempts: a list such as 5s,5m,2h whose last one repeats, or
    /// FIRST..LONGEST, which doubles. Units: ms, s, m, h, d.
    #[arg(long, value_name = "WAITS", default_value = "2s..6h", value_parser = parse_backoff)]
    backoff: Backoff,
}

/// What became of a subscription that was named.
#[derive(Debug, Serialize)]
struct Changed<'a> {
    name: &'a str,
    result: &'static str,
}

pub(super) async fn run(command: Command, context: &Context) -> Result<ExitCode, Failure> {
    match command {
        Command::Create(args) => return create(*args, context).await,
        Command::List => return list(context).await,
        Command::Pause(NameArgs { name }) => {
            context.admin().await?.pause_subscription(&name).await?;
            told(context, &name, "paused")?;
        }
        Command::Resume(NameArgs { name }) => {
            context.admin().await?.resume_subscription(&name).await?;
            told(context, &name, "resumed")?;
        }
        Command::Delete(NameArgs { name }) => {
            context.admin().await?.delete_subscription(&name).await?;
            told(context, &name, "deleted")?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn told(context: &Context, name: &str, result: &'static str) -> Result<(), Failure> {
    let changed = Changed { name, result };
    context.output.print(&changed, |changed| format!("{} {}", changed.result, changed.name))?;
    Ok(())
}

async fn create(args: CreateArgs, context: &Context) -> Result<ExitCode, Failure> {
    let priority = match args.priority.as_str() {
        "high" => Priority::High,
        "low" => Priority::Low,
        "bulk" => Priority::Bulk,
        _ => Priority::Normal,
    };
    let policy = Policy {
        queue: args.queue,
        max_attempts: args.max_attempts,
        backoff: args.backoff,
        timeout_ms: args.timeout_ms,
        priority,
    };
    let globs = args.types.iter().map(postrider::Glob::as_str);
    let mut new = Subscription::new(args.name, globs).map_err(Failure::usage)?.policy(policy);
    new.tenant = args.tenant;
    new.filter = args.filter;
    new.coalesce = args.coalesce;
    new.check().map_err(Failure::usage)?;
    let info = context.admin().await?.create_subscription(&new).await?;
    context.output.print(&info, |info| {
        let mut text = format!("created {}: {}\n", info.declared.name, info.types.join(", "));
        if !info.left_out.is_empty() {
            text.push_str(&format!("left out as internal: {}\n", info.left_out.join(", ")));
        }
        text
    })?;
    Ok(ExitCode::SUCCESS)
}

async fn list(context: &Context) -> Result<ExitCode, Failure> {
    let subscriptions = context.admin().await?.subscriptions().await?;
    context.output.print(&subscriptions, |subscriptions| {
        let head =
            ["NAME", "STATE", "WAITING", "OLDEST", "TYPES", "TENANT", "SINK", "QUEUE", "TRIES"];
        let mut table = Table::new(context.output, &head);
        for info in subscriptions {
            let declared = &info.declared;
            table.row([
                declared.name.clone(),
                if info.paused_at.is_some() { "paused" } else { "active" }.to_owned(),
                info.lag.waiting.to_string(),
                info.lag.oldest_age_ms.map(span).unwrap_or_default(),
                info.globs_in_force.to_texts().join(" "),
                declared.tenant.clone().unwrap_or_default(),
                declared.sink.as_str().to_owned(),
                declared.policy.queue.clone(),
                declared.policy.max_attempts.to_string(),
            ]);
        }
        let empty = "there is no subscription yet; see: postrider subscriptions create --help";
        let mut text = table.render(empty);
        let notes: Vec<String> = subscriptions.iter().flat_map(notes).collect();
        if !notes.is_empty() {
            text.push('\n');
            notes.iter().for_each(|note| text.push_str(&format!("{}\n", safe(note))));
        }
        text
    })?;
    Ok(ExitCode::SUCCESS)
}

/// What does not fit into a row.
fn notes(info: &SubscriptionInfo) -> Vec<String> {
    let name = &info.declared.name;
    let mut notes = Vec::new();
    if let Some(filter) = &info.declared.filter {
        notes.push(format!("{name}: filter {filter}"));
    }
    if let Some(error) = &info.filter_error {
        notes.push(format!("{name}: the filter failed, its events are discarded jobs: {error}"));
    }
    if info.declared.coalesce {
        notes.push(format!("{name}: coalesces events of one subject"));
    }
    if !info.left_out.is_empty() {
        let types = info.left_out.join(", ");
        notes.push(format!("{name}: does not get these types, since they are internal: {types}"));
    }
    if info.globs_in_force != info.declared.globs {
        let declared = info.declared.globs.to_texts().join(" ");
        notes.push(format!(
            "{name}: declares {declared}; another live process still registers the rest"
        ));
    }
    if info.declared.source == Source::Enqueue {
        notes.push(format!("{name}: a kind of jobs, which are enqueued"));
    } else if info.types.is_empty() && info.left_out.is_empty() {
        notes.push(format!("{name}: matches no declared type"));
    }
    notes
}

/// Reads `5s,5m,2h` or `2s..6h`.
pub(super) fn parse_backoff(text: &str) -> Result<Backoff, String> {
    let backoff = match text.split_once("..") {
        Some((first, longest)) => Backoff::exponential(parse_span(first)?, parse_span(longest)?),
        None => Backoff::list(text.split(',').map(parse_span).collect::<Result<Vec<_>, _>>()?),
    };
    backoff.map_err(|invalid| invalid.to_string())
}

/// Reads a time span such as `90s`.
pub(super) fn parse_span(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let wrong = || format!("`{text}` is no time span such as 500ms, 5s, 10m, 2h or 1d");
    let number: u64 = text[..digits].parse().map_err(|_| wrong())?;
    let unit_ms: u64 = match &text[digits..] {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(wrong()),
    };
    number.checked_mul(unit_ms).map(Duration::from_millis).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_a_list_or_double() {
        let list = Backoff::List { delays_ms: vec![5_000, 300_000, 7_200_000] };
        assert_eq!(parse_backoff("5s, 5m,2h").expect("a list"), list);
        let doubling = Backoff::Exponential { base_ms: 500, max_ms: 86_400_000 };
        assert_eq!(parse_backoff("500ms..1d").expect("a range"), doubling);
        for wrong in ["", "5", "s", "5x", "-1s", "1s..", "2h..1s", "99999999999999999999d", "1.5s"]
        {
            assert!(parse_backoff(wrong).is_err(), "{wrong}");
        }
    }
}
