//! `postrider events`: list, look at one, requeue or skip a poisoned one.
//!
//! How it fails: exit code 1 for an event that is not there or not in a state for it. Invariant: a
//! page ends with the way to the next.

use std::process::ExitCode;

use postrider::Glob;
use postrider::admin::{
    EventDetail, EventFilter, EventRef, EventState, EventSummary, Page, Requeued, Skipped,
};
use time::OffsetDateTime;

use super::context::{self, Context};
use super::fail::Failure;
use super::output::{Output, Table, safe, short, time, time_or_none};

const LIST_HELP: &str = "\
Examples:
  postrider events list --state poisoned
  postrider events list --type 'order.**' --tenant acme --since 2h
  postrider events list --json --limit 1000 | jq -r '.items[].id'";

const SHOW_HELP: &str = "\
Examples:
  postrider events show 4711
  postrider events show 01990f6e-6a3c-7cc1-8b1e-3d2f5a6b7c8d --json | jq .event.data";

const REQUEUE_HELP: &str = "\
A fan-out that failed five times is poisoned and waits for a person. Once the
reason is gone, this gives the event all its attempts again.

Examples:
  postrider events requeue 4711
  postrider events list --state poisoned --json | jq -r '.items[].seq' |
    xargs -n1 postrider events requeue";

const SKIP_HELP: &str = "\
The event stays, and no subscription gets it. This cannot be undone.

Example:
  postrider events skip 4711";

/// What to do about events.
#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// List events, newest first.
    List(ListArgs),
    /// Show one event and what became of it.
    #[command(after_help = SHOW_HELP)]
    Show(EventArgs),
    /// Put an event whose fan-out failed back.
    #[command(after_help = REQUEUE_HELP)]
    Requeue(EventArgs),
    /// Give an event whose fan-out failed up.
    #[command(after_help = SKIP_HELP)]
    Skip(EventArgs),
}

/// Which event.
#[derive(Debug, clap::Args)]
pub(super) struct EventArgs {
    /// Its id or its seq.
    event: EventRef,
}

/// Which events.
#[derive(Debug, clap::Args)]
#[command(after_help = LIST_HELP)]
pub(super) struct ListArgs {
    /// Only types that match.
    #[arg(long = "type", value_name = "GLOB", value_parser = context::glob)]
    type_glob: Option<Glob>,
    /// Only this tenant.
    #[arg(long)]
    tenant: Option<String>,
    /// Only this subject.
    #[arg(long)]
    subject: Option<String>,
    /// Only this state: owed, failing, poisoned, fanned_out or skipped.
    #[arg(long)]
    state: Option<EventState>,
    /// Only those recorded since: a span such as 30m, 2h or 7d, or a time such as
    /// 2026-01-31T12:00:00Z.
    #[arg(long, value_name = "WHEN", value_parser = parse_since)]
    since: Option<OffsetDateTime>,
    /// Only those below this seq: the next page.
    #[arg(long, value_name = "SEQ", value_parser = parse_seq)]
    before: Option<i64>,
    /// How many at most, 1 to 1000.
    #[arg(long, value_name = "N", default_value_t = 50)]
    #[arg(value_parser = clap::value_parser!(i64).range(1..=1000))]
    limit: i64,
}

pub(super) async fn run(command: Command, context: &Context) -> Result<ExitCode, Failure> {
    match command {
        Command::List(args) => list(args, context).await,
        Command::Show(EventArgs { event }) => show(event, context).await,
        Command::Requeue(EventArgs { event }) => requeue(event, context).await,
        Command::Skip(EventArgs { event }) => skip(event, context).await,
    }
}

async fn list(args: ListArgs, context: &Context) -> Result<ExitCode, Failure> {
    let filter = EventFilter {
        type_glob: args.type_glob,
        tenant: args.tenant,
        subject: args.subject,
        state: args.state,
        since: args.since,
        before: args.before,
        limit: args.limit,
    };
    let page = context.admin().await?.events(&filter).await?;
    let EventFilter { type_glob, tenant, subject, state, since, before, limit: _ } = &filter;
    let asks_for_all = type_glob.is_none()
        && (state.is_none() && since.is_none() && before.is_none())
        && [tenant, subject].into_iter().all(Option::is_none);
    let empty = if asks_for_all { "no event yet" } else { "no event matches" };
    context.output.print(&page, |page| table(page, empty, context.output))?;
    Ok(ExitCode::SUCCESS)
}

fn table(page: &Page<EventSummary>, empty: &str, output: Output) -> String {
    let head = ["SEQ", "RECORDED", "TYPE", "SUBJECT", "TENANT", "STATE", "TRIES", "ERROR", "ID"];
    let mut table = Table::new(output, &head);
    for event in &page.items {
        table.row([
            event.seq.to_string(),
            time(event.occurred_at),
            event.event_type.clone(),
            short(&event.subject, 40),
            event.tenant.clone(),
            event.state.to_string(),
            event.attempts.map(|attempts| attempts.to_string()).unwrap_or_default(),
            short(event.last_error.as_deref().unwrap_or_default(), 60),
            event.id.map(|id| id.to_string()).unwrap_or_default(),
        ]);
    }
    let mut text = table.render(empty);
    if let Some(next) = page.next {
        text.push_str(&format!("\nmore: --before {next}\n"));
    }
    text
}

async fn show(event: EventRef, context: &Context) -> Result<ExitCode, Failure> {
    let detail = context.admin().await?.event(event).await?.ok_or_else(|| not_found(event))?;
    context.output.print(&detail, |detail| told(detail, context.output))?;
    Ok(ExitCode::SUCCESS)
}

fn told(detail: &EventDetail, output: Output) -> String {
    let mut fields = vec![("seq", detail.seq.to_string())];
    if let Some(event) = &detail.event {
        fields.extend([
            ("id", event.id.to_string()),
            ("type", event.event_type.clone()),
            ("subject", safe(&event.subject)),
            ("tenant", safe(&event.tenant)),
            ("key", if event.key == event.subject { String::new() } else { safe(&event.key) }),
            ("recorded", time(event.occurred_at)),
        ]);
        let header =
            |(name, value): (&String, &String)| ("header", safe(&format!("{name}: {value}")));
        fields.extend(event.headers.iter().map(header));
        fields.push(match &event.payload {
            postrider::Payload::Json(text) => ("data", safe(text.get())),
            postrider::Payload::Bytes { content_type, body } => {
                ("body", format!("{} bytes of {}", body.len(), safe(content_type)))
            }
        });
    }
    fields.push(("state", output.word(detail.state.as_str())));
    fields.push(("fanned out", time_or_none(detail.fanned_out_at)));
    if let Some(failure) = &detail.failure {
        fields.extend([
            ("tries", failure.attempts.to_string()),
            ("next try", time_or_none(failure.retry_at)),
            ("poisoned", time_or_none(failure.poisoned_at)),
            ("error", safe(failure.last_error.as_deref().unwrap_or_default())),
        ]);
    }
    let mut text = output.fields(&fields);
    if detail.jobs.is_empty() {
        if detail.state == EventState::FannedOut {
            text.push_str("\nno subscription wanted it\n");
        }
        return text;
    }
    let mut table = Table::new(output, &["SUBSCRIPTION", "JOB", "STATE", "COALESCED INTO"]);
    for job in &detail.jobs {
        table.row([
            job.subscription.clone(),
            job.job_id.to_string(),
            job.state.map_or("forgotten", |state| state.as_str()).to_owned(),
            job.coalesced_into.map(|seq| format!("event {seq}")).unwrap_or_default(),
        ]);
    }
    text.push('\n');
    text.push_str(&table.render(""));
    text
}

async fn requeue(event: EventRef, context: &Context) -> Result<ExitCode, Failure> {
    let result = context.admin().await?.requeue_event(event).await?;
    answered(
        context,
        &result,
        match result {
            Requeued::Requeued => Ok(format!("requeued event {event}")),
            Requeued::NotPoisoned(state) => Err(not_poisoned(event, state)),
            Requeued::NotFound => Err(not_found(event)),
        },
    )
}

async fn skip(event: EventRef, context: &Context) -> Result<ExitCode, Failure> {
    let result = context.admin().await?.skip_event(event).await?;
    answered(
        context,
        &result,
        match result {
            Skipped::Skipped => Ok(format!("skipped event {event}: no subscription gets it")),
            Skipped::NotPoisoned(state) => Err(not_poisoned(event, state)),
            Skipped::NotFound => Err(not_found(event)),
        },
    )
}

/// Prints the word of an answer as JSON, or its sentence; a negative one fails.
pub(super) fn answered<T: serde::Serialize>(
    context: &Context,
    result: &T,
    told: Result<String, Failure>,
) -> Result<ExitCode, Failure> {
    if context.output.json || told.is_ok() {
        let sentence = told.as_deref().unwrap_or_default().to_owned();
        context.output.print(result, |_| sentence)?;
    }
    told.map(|_| ExitCode::SUCCESS)
}

fn not_poisoned(event: EventRef, state: EventState) -> Failure {
    let words = match state {
        EventState::Owed => "owed: its fan-out has not failed",
        EventState::FannedOut => "fanned out already",
        EventState::Skipped => "skipped already",
        EventState::Failing | EventState::Poisoned => "being tried right now",
    };
    Failure::operation(format!("event {event} is neither failing nor poisoned; it is {words}"))
}

fn not_found(event: EventRef) -> Failure {
    Failure::operation(format!("there is no event {event}"))
        .hint("it was never committed, or is over its retention; see: postrider events list")
}

fn parse_seq(text: &str) -> Result<i64, &'static str> {
    text.parse().map_err(|_| "a seq is a number")
}

/// Reads a span before now, or a time.
pub(super) fn parse_since(text: &str) -> Result<OffsetDateTime, String> {
    if let Ok(span) = super::subscriptions::parse_span(text) {
        return Ok(OffsetDateTime::now_utc() - span);
    }
    let rfc3339 = time::format_description::well_known::Rfc3339;
    OffsetDateTime::parse(text, &rfc3339)
        .map_err(|_| "say a span such as 30m or 2h, or a time such as 2026-01-31T12:00:00Z".into())
}
