//! `postrider tail`: a subscription's events as NDJSON, or a command run for each.
//!
//! How it fails: exit code 2 or 1 for a subscription that cannot be used, 3 when the database does
//! not answer at the start. Once it runs, an outage is waited out. Invariants: an event counts as
//! handled only when its line is flushed or its command ended with 0; a signal and a closed pipe
//! end it in order, and what was not handled goes to the next `tail`.

mod exec;
mod print;

use std::process::ExitCode;
use std::sync::Arc;

use postrider::admin::Admin;
use postrider::{Engine, Glob, SinkKind, Subscription};

use super::context::{self, Context};
use super::fail::Failure;
use super::serve::EngineArgs;
use super::signals::Signals;

const AFTER_HELP: &str = "\
The subscription is durable: what happens while no `tail` runs is delivered to
the next one. Several of one name share the work. Each line is an event with id,
seq, tenant, type, subject, key, occurred_at, data and headers; an event may
come twice, after a crash for one, with the same id.

With --exec, `sh -c COMMAND` gets the event as JSON on standard input, and
POSTRIDER_EVENT_ID, POSTRIDER_EVENT_TYPE, POSTRIDER_EVENT_SUBJECT and
POSTRIDER_EVENT_ATTEMPT in its environment. Exit code 0 means done, 65 means
never try again, anything else means try again later; the end of its standard
error is kept as the reason.

Examples:
  postrider tail --subscription debug --type '**'
  postrider tail --subscription mail | jq -r .subject
  postrider tail --subscription mail --type order.placed --exec './send-mail.sh' --concurrency 4";

/// Kills every command that runs for an event: this process ends without another word.
pub(super) fn kill_commands() {
    exec::kill_all();
}

/// What to follow, and what to do with it.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Args {
    /// The subscription, which is created when there is none of this name.
    #[arg(long, short, value_name = "NAME")]
    subscription: String,
    /// A glob over types that a new subscription wants; repeat for more. Quote it.
    #[arg(long = "type", value_name = "GLOB", value_parser = context::glob)]
    types: Vec<Glob>,
    /// Run this for each event instead of printing it.
    #[arg(long, value_name = "COMMAND", value_parser = parse_command)]
    exec: Option<String>,
    /// How many events are handled at once. [default: 50, with --exec 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=10_000))]
    concurrency: Option<u16>,
    #[command(flatten)]
    engine: EngineArgs,
}

pub(super) async fn run(args: Args, context: &Context) -> Result<ExitCode, Failure> {
    let signals = Signals::new();
    let admin = context.admin().await?;
    let subscription = subscription(&args, &admin).await?;
    drop(admin);
    let default = if args.exec.is_some() { 1 } else { 50 };
    let concurrency = usize::from(args.concurrency.unwrap_or(default));
    let mut builder = Engine::builder(args.engine.database(context)?)
        .schema(context.schema.clone())
        .queue(subscription.policy.queue.clone(), concurrency);
    builder = args.engine.reaches(builder)?;
    let printer = Arc::new(print::Printer::new());
    builder = match args.exec {
        Some(command) => {
            let command: Arc<str> = command.into();
            builder
                .subscribe(subscription, move |delivery| exec::run(Arc::clone(&command), delivery))
        }
        None => {
            let printer = Arc::clone(&printer);
            builder.subscribe(subscription, move |delivery| {
                let printer = Arc::clone(&printer);
                async move { printer.print(&delivery.event).await }
            })
        }
    };
    let handle = builder.start().await?;
    eprintln!("following `{}`; stop with Ctrl-C", args.subscription);
    let stop = async {
        tokio::select! {
            () = signals.first() => {}
            () = printer.failed() => {}
        }
    };
    handle.run_until(stop).await?;
    match printer.failure() {
        Some(error) => Err(error.into()),
        None => Ok(ExitCode::SUCCESS),
    }
}

/// Refuses a command that does nothing: it would count every event as handled.
fn parse_command(text: &str) -> Result<String, &'static str> {
    match text.trim().is_empty() {
        true => Err("it is empty; leave --exec out to print the events"),
        false => Ok(text.to_owned()),
    }
}

/// The subscription of this name as it is, or a new one.
async fn subscription(args: &Args, admin: &Admin) -> Result<Subscription, Failure> {
    let name = &args.subscription;
    let globs = postrider::Globs::new(args.types.iter().cloned());
    let Some(info) = admin.subscription(name).await? else {
        if globs.is_empty() {
            return Err(Failure::operation(format!("there is no subscription `{name}` yet"))
                .hint("give --type GLOB to create it; --type '**' wants everything"));
        }
        let new = Subscription::new(name, globs.to_texts()).map_err(Failure::usage)?;
        return Ok(admin.create_subscription(&new).await?.declared);
    };
    let declared = info.declared;
    if declared.sink != SinkKind::Handler {
        let sink = declared.sink.as_str();
        return Err(Failure::operation(format!("the events of `{name}` go to {sink}, not here"))
            .hint("give another --subscription"));
    }
    let same = globs.len() == declared.globs.len()
        && globs.iter().all(|glob| declared.globs.iter().any(|known| known == glob));
    if !globs.is_empty() && !same {
        let known = declared.globs.to_texts().join(" ");
        return Err(Failure::operation(format!("`{name}` exists and wants other types: {known}"))
            .hint(format!(
                "leave --type out to follow it as it is, or: postrider subscriptions delete {name}"
            )));
    }
    if info.paused_at.is_some() {
        eprintln!("`{name}` is paused; nothing comes until: postrider subscriptions resume {name}");
    }
    Ok(declared)
}
