//! `postrider record`: one event, or many from NDJSON.
//!
//! How it fails: exit code 2 for what cannot be an event, 1 for what the database refuses for its
//! own state (a type that is not declared, an id that is taken) and for a bad line of NDJSON.
//! Invariant: an id is printed only when its event is committed.

mod ndjson;

use std::io::Read as _;
use std::process::ExitCode;

use postrider::{NewEvent, Recorder};
use serde::Serialize;
use serde_json::value::RawValue;
use uuid::Uuid;

use super::context::Context;
use super::fail::Failure;

const AFTER_HELP: &str = "\
A service records events in its own transactions, through the library or select
postrider.record(…); this is for trying out, scripts and imports.

Examples:
  postrider record order.placed order:42 --data '{\"amount\": 12}'
  postrider record order.placed order:42 --data @order.json --tenant acme --header trace=abc
  jq -c '{type: \"order.placed\", subject: .id, data: ., id: .uuid}' orders.json |
    postrider record --ndjson

Each NDJSON line is an object with type and subject, and optionally data, key,
tenant, headers and id, or body (base 16) and content_type instead of data. A
batch is a transaction: a bad line is named by its number and nothing of its
batch is recorded. Lines with an id can be recorded again without harm for a
week.

Exit code 2 for an event on the command line that cannot be one, 1 for a bad line
of NDJSON, which is a failed operation: lines before it may be recorded.";

const USAGE: &str = "\
postrider record [OPTIONS] TYPE SUBJECT
       postrider record [OPTIONS] --ndjson [FILE]";

/// What to record.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP, override_usage = USAGE)]
pub(super) struct Args {
    /// The type, such as order.placed; it must be declared.
    #[arg(value_name = "TYPE", required_unless_present = "ndjson", conflicts_with = "ndjson")]
    event_type: Option<String>,
    /// What the event is about, such as order:42.
    #[arg(required_unless_present = "ndjson", conflicts_with = "ndjson")]
    subject: Option<String>,
    /// The data: JSON, or @FILE, or - for standard input.
    #[arg(long, value_name = "JSON", default_value = "{}", conflicts_with = "ndjson")]
    #[arg(allow_hyphen_values = true)]
    data: String,
    /// The ordering key. [default: the subject]
    #[arg(long, conflicts_with = "ndjson")]
    key: Option<String>,
    /// The owner of the event.
    #[arg(long, conflicts_with = "ndjson")]
    tenant: Option<String>,
    /// A header; repeat for more.
    #[arg(long = "header", value_name = "NAME=VALUE", conflicts_with = "ndjson")]
    #[arg(value_parser = parse_header)]
    headers: Vec<(String, String)>,
    /// An id of your own: recording it again within a week changes nothing.
    #[arg(long, value_name = "UUID", value_parser = parse_id, conflicts_with = "ndjson")]
    id: Option<Uuid>,
    /// Record a line each from FILE, or from standard input when it is - or left out.
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    ndjson: Option<String>,
    /// How many lines of NDJSON are one transaction, 1 to 10000.
    #[arg(long, value_name = "N", default_value_t = 1000, requires = "ndjson")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=10_000))]
    batch: u16,
}

/// An event that was recorded.
#[derive(Debug, Serialize)]
struct Recorded {
    id: Uuid,
}

pub(super) async fn run(args: Args, context: &Context) -> Result<ExitCode, Failure> {
    if let Some(source) = &args.ndjson {
        return ndjson::run(source, usize::from(args.batch), context).await;
    }
    let event = event(&args)?;
    let mut client = context.database()?.connect().await?;
    let id = Recorder::new(&context.schema).record(&mut client, &event).await?;
    context.output.print(&Recorded { id }, |recorded| recorded.id.to_string())?;
    Ok(ExitCode::SUCCESS)
}

fn event(args: &Args) -> Result<NewEvent, Failure> {
    // clap has seen to it that both are there.
    let (Some(event_type), Some(subject)) = (&args.event_type, &args.subject) else {
        return Err(Failure::usage("TYPE and SUBJECT are needed"));
    };
    let build = || {
        let mut event = NewEvent::new(event_type, subject)?;
        if let Some(key) = &args.key {
            event = event.key(key)?;
        }
        if let Some(tenant) = &args.tenant {
            event = event.tenant(tenant)?;
        }
        for (place, (name, value)) in args.headers.iter().enumerate() {
            if args.headers[..place].iter().any(|(earlier, _)| earlier == name) {
                let problem = format!("`{name}` is given twice");
                return Err(postrider::Invalid::new("headers", problem));
            }
            event = event.header(name, value)?;
        }
        if let Some(id) = args.id {
            event = event.id(id);
        }
        Ok::<_, postrider::Invalid>(event)
    };
    let event = build().map_err(Failure::usage)?.raw_json(data(&args.data)?);
    // Here rather than at recording: what is refused in any case needs no database.
    event.check().map_err(Failure::usage)?;
    Ok(event)
}

/// Reads `--data`: JSON, `@FILE`, or `-`.
pub(super) fn data(given: &str) -> Result<Box<RawValue>, Failure> {
    let text = if given == "-" {
        let mut text = String::new();
        let read = std::io::stdin().read_to_string(&mut text);
        read.map_err(|error| Failure::usage(format!("standard input cannot be read: {error}")))?;
        text
    } else if let Some(file) = given.strip_prefix('@') {
        std::fs::read_to_string(file)
            .map_err(|error| Failure::usage(format!("--data: {file} cannot be read: {error}")))?
    } else {
        given.to_owned()
    };
    serde_json::from_str(&text).map_err(|error| {
        let place = format!("line {} column {}", error.line(), error.column());
        Failure::usage(format!("--data is no JSON: {}", said(&error)))
            .hint(format!("the mistake is at {place}; a text needs its own quotes: '\"text\"'"))
    })
}

/// What a JSON error says, without its place.
fn said(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    text.strip_suffix(&place).unwrap_or(&text).to_owned()
}

fn parse_id(text: &str) -> Result<Uuid, &'static str> {
    Uuid::parse_str(text).map_err(|_| "a UUID looks like 01980000-0000-7000-8000-000000000001")
}

fn parse_header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("a header is NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}
