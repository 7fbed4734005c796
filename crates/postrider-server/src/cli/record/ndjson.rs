//! Many events from NDJSON: a batch is a transaction.
//!
//! How it fails: a bad line is named by its number, nothing of its batch is recorded, and the
//! failure says up to which line everything is. Invariants: lines are recorded in order; no line is
//! skipped, except empty ones; memory is bounded by one batch.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use postrider::{Error, NewEvent, Recorder};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::error::Category;
use serde_json::value::RawValue;
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, BufReader};
use uuid::Uuid;

use crate::cli::context::Context;
use crate::cli::fail::{FAILED, Failure};
use crate::cli::signals::Signals;

/// A batch is recorded early when its lines take this much, so that memory stays bounded.
const BATCH_BYTES_MAX: usize = 16 * 1024 * 1024;
/// The longest line: far over what any setting lets an event carry.
const LINE_BYTES_MAX: usize = 160 * 1024 * 1024;

/// One line.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    r#type: String,
    subject: String,
    #[serde(default, deserialize_with = "even_null")]
    data: Option<Box<RawValue>>,
    body: Option<String>,
    content_type: Option<String>,
    key: Option<String>,
    tenant: Option<String>,
    headers: Option<BTreeMap<String, String>>,
    #[serde(default, deserialize_with = "id")]
    id: Option<Uuid>,
}

/// Takes `null` as data, which is not the same as no data.
fn even_null<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(from).map(Some)
}

/// How far it got.
#[derive(Debug, Default, Serialize)]
struct Progress {
    /// Events that are recorded.
    recorded: u64,
    /// Transactions.
    batches: u64,
    /// Every line up to this one is recorded, 0 for none.
    through_line: u64,
    /// Why it ended early.
    error: Option<String>,
}

/// Lines that are read and not yet recorded.
#[derive(Debug, Default)]
struct Batch {
    events: Vec<NewEvent>,
    /// The line number of each event.
    lines: Vec<u64>,
    bytes: usize,
    /// The last line that was read, which may have been empty.
    last_line: u64,
}

/// What records, and how far it is.
struct Import<'a> {
    client: tokio_postgres::Client,
    recorder: Recorder,
    progress: Progress,
    bar: &'a ProgressBar,
}

pub(super) async fn run(
    source: &str,
    batch_max: usize,
    context: &Context,
) -> Result<ExitCode, Failure> {
    let (input, size) = open(source).await?;
    let client = context.database()?.connect().await?;
    let bar = bar(size);
    let recorder = Recorder::new(&context.schema);
    let mut import = Import { client, recorder, progress: Progress::default(), bar: &bar };
    let ended = import.all(input, batch_max).await;
    bar.finish_and_clear();
    let mut progress = import.progress;
    let Err(failure) = ended else {
        context.output.print(&progress, told)?;
        return Ok(ExitCode::SUCCESS);
    };
    progress.error = Some(failure.message().to_owned());
    if context.output.json {
        context.output.print(&progress, |_| String::new())?;
    }
    Err(failure.hint(match progress.through_line {
        0 => "nothing is recorded".to_owned(),
        line => format!(
            "lines 1 to {line} are recorded ({} events), nothing after; go on from line {}",
            progress.recorded,
            line + 1
        ),
    }))
}

fn told(progress: &Progress) -> String {
    let Progress { recorded, batches, .. } = progress;
    let transactions = if *batches == 1 { "transaction" } else { "transactions" };
    format!("recorded {recorded} events in {batches} {transactions}")
}

/// Opens the file or standard input; gives its size when that is known.
async fn open(
    source: &str,
) -> Result<(Box<dyn AsyncBufRead + Unpin + Send>, Option<u64>), Failure> {
    if source == "-" {
        if std::io::stdin().is_terminal() {
            eprintln!("reading NDJSON from the terminal; end with Ctrl-D");
        }
        return Ok((Box::new(BufReader::new(tokio::io::stdin())), None));
    }
    let unreadable =
        |error: std::io::Error| Failure::usage(format!("{source} cannot be read: {error}"));
    let file = tokio::fs::File::open(source).await.map_err(unreadable)?;
    let size = file.metadata().await.map_err(unreadable)?.len();
    Ok((Box::new(BufReader::new(file)), Some(size).filter(|size| *size > 0)))
}

/// A bar over the bytes of a file, or a count for what has no known size. Hidden unless standard
/// error is a terminal.
fn bar(size: Option<u64>) -> ProgressBar {
    let (bar, template) = match size {
        Some(size) => (
            ProgressBar::new(size),
            "{bar:32} {percent:>3} %  {bytes} of {total_bytes}  {msg}  {eta} left",
        ),
        None => (ProgressBar::new_spinner(), "{spinner} {bytes}  {msg}  {elapsed}"),
    };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

impl Import<'_> {
    /// Reads and records to the end, the first bad line, or the first signal.
    async fn all(
        &mut self,
        mut input: Box<dyn AsyncBufRead + Unpin + Send>,
        batch_max: usize,
    ) -> Result<(), Failure> {
        let stop = Signals::new().first();
        tokio::pin!(stop);
        let mut batch = Batch::default();
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = tokio::select! {
                biased;
                () = &mut stop => return Err(Failure::operation("stopped by a signal")),
                read = read_line(&mut input, &mut line) => read,
            };
            let number = batch.last_line + 1;
            let read = read.map_err(|error| at_line(number, Failure::operation(error)))?;
            if read == 0 {
                return self.flush(&mut batch).await;
            }
            batch.last_line = number;
            self.bar.inc(u64::try_from(read).unwrap_or(0));
            if line.trim_ascii().is_empty() {
                continue;
            }
            batch.events.push(parse(&line).map_err(|failure| at_line(number, failure))?);
            batch.lines.push(number);
            batch.bytes += read;
            if batch.events.len() >= batch_max || batch.bytes >= BATCH_BYTES_MAX {
                self.flush(&mut batch).await?;
            }
        }
    }

    /// Records the batch as one transaction.
    async fn flush(&mut self, batch: &mut Batch) -> Result<(), Failure> {
        if !batch.events.is_empty() {
            let recorded = self.recorder.record_many(&mut self.client, &batch.events).await;
            if let Err(error) = recorded {
                return Err(self.blame_line(batch, error).await);
            }
            self.progress.batches += 1;
            self.progress.recorded += u64::try_from(batch.events.len()).unwrap_or(0);
            self.bar.set_message(format!("{} events", self.progress.recorded));
        }
        self.progress.through_line = batch.last_line;
        *batch = Batch { last_line: batch.last_line, ..Batch::default() };
        Ok(())
    }

    /// Names the line that a batch failed for.
    async fn blame_line(&mut self, batch: &Batch, error: Error) -> Failure {
        if let Some((place, words)) = place_in_batch(&error.to_string())
            && let Some(number) = batch.lines.get(place - 1)
        {
            return at_line(*number, Failure::from(error).message_is(words));
        }
        // JSON that PostgreSQL cannot hold fails for the batch as a whole: try each event alone.
        if error.kind() == postrider::ErrorKind::Invalid {
            for (event, number) in batch.events.iter().zip(&batch.lines) {
                match self.try_alone(event).await {
                    Err(error) if error.kind() == postrider::ErrorKind::Invalid => {
                        return at_line(*number, error.into());
                    }
                    Err(error) => return Failure::from(error).code(FAILED),
                    Ok(()) => {}
                }
            }
        }
        Failure::from(error).code(FAILED)
    }

    /// Records an event and takes it back.
    async fn try_alone(&mut self, event: &NewEvent) -> Result<(), Error> {
        let mut transaction = self.client.transaction().await?;
        self.recorder.record(&mut transaction, event).await?;
        transaction.rollback().await?;
        Ok(())
    }
}

/// Reads a line with its end; gives its length, 0 at the end of the input.
async fn read_line(
    input: &mut (dyn AsyncBufRead + Unpin + Send),
    line: &mut Vec<u8>,
) -> Result<usize, String> {
    let limit = u64::try_from(LINE_BYTES_MAX).unwrap_or(u64::MAX);
    let read = tokio::io::AsyncReadExt::take(input, limit).read_until(b'\n', line).await;
    match read {
        Ok(read) if read >= LINE_BYTES_MAX => Err("is longer than any event may be".to_owned()),
        Ok(read) => Ok(read),
        Err(error) => Err(format!("cannot be read: {error}")),
    }
}

fn at_line(number: u64, failure: Failure) -> Failure {
    failure.prefixed(format_args!("line {number}: ")).code(FAILED)
}

/// Takes `event 7 of the batch: words` apart.
fn place_in_batch(message: &str) -> Option<(usize, String)> {
    let (place, words) = message.strip_prefix("event ")?.split_once(" of the batch: ")?;
    let place = place.parse().ok().filter(|place| *place > 0)?;
    Some((place, words.to_owned()))
}

/// Reads an id, and says what one looks like in our words.
fn id<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Uuid>, D::Error> {
    let text = Option::<String>::deserialize(from)?;
    let id = text.map(|text| super::parse_id(&text)).transpose();
    id.map_err(|problem| serde::de::Error::custom(format_args!("id: {problem}")))
}

fn parse(line: &[u8]) -> Result<NewEvent, Failure> {
    // A list would be taken for the fields in their order.
    let is_object = line.trim_ascii_start().starts_with(b"{");
    match serde_json::from_slice::<Line>(line) {
        Err(error) if error.classify() != Category::Data => {
            Err(Failure::operation(format!("is no JSON (column {})", error.column())))
        }
        _ if !is_object => Err(Failure::operation("is no JSON object")),
        Err(error) => Err(Failure::operation(super::said(&error))),
        Ok(line) => build(line).map_err(Failure::operation),
    }
}

fn build(line: Line) -> Result<NewEvent, postrider::Invalid> {
    let invalid = |field, problem: &str| Err(postrider::Invalid::new(field, problem));
    let mut event = NewEvent::new(line.r#type, line.subject)?;
    event = match (line.data, line.body, line.content_type) {
        (Some(_), Some(_), _) => return invalid("data", "an event has data or a body, not both"),
        (Some(data), None, None) => event.raw_json(data),
        (None, Some(body), Some(content_type)) => match unhex(&body) {
            Some(body) => event.bytes(content_type, body)?,
            None => return invalid("body", "is not written in base 16"),
        },
        (None, Some(_), None) => return invalid("content_type", "is missing beside the body"),
        (_, None, Some(_)) => return invalid("body", "is missing beside content_type"),
        (None, None, None) => event,
    };
    if let Some(key) = line.key {
        event = event.key(key)?;
    }
    if let Some(tenant) = line.tenant {
        event = event.tenant(tenant)?;
    }
    for (name, value) in line.headers.unwrap_or_default() {
        event = event.header(name, value)?;
    }
    Ok(match line.id {
        Some(id) => event.id(id),
        None => event,
    })
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    digits
        .chunks_exact(2)
        .map(|pair| u8::try_from(digit(&pair[0])? * 16 + digit(&pair[1])?).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(line: &str) -> String {
        parse(line.as_bytes()).expect_err(line).message().to_owned()
    }

    #[test]
    fn a_bad_line_says_what_is_wrong_with_it() {
        assert_eq!(refused(r#"{"type":"a.b"}"#), "missing field `subject`");
        assert!(refused(r#"{"type":"a.b","subject":"s","x":1}"#).contains("unknown field `x`"));
        for other in ["5", r#"["a.b", "s"]"#] {
            assert_eq!(refused(other), "is no JSON object");
        }
        let id = refused(r#"{"type":"a.b","subject":"s","id":"7"}"#);
        assert!(id.starts_with("id: a UUID looks like"), "{id}");
        assert!(refused("not json").starts_with("is no JSON (column 2)"));
        assert!(refused(r#"{"type":"a..b","subject":"s"}"#).contains("empty segment"));
        assert!(refused(r#"{"type":"a","subject":"s","body":"ff"}"#).contains("content_type"));
        let odd = r#"{"type":"a","subject":"s","body":"f","content_type":"a/b"}"#;
        assert!(refused(odd).contains("base 16"));
    }

    #[test]
    fn data_keeps_its_digits_and_null_is_data() {
        let event = parse(br#"{"type":"a","subject":"s","data":{"n":1.10}}"#).expect("valid");
        assert_eq!(event.payload.as_json(), Some(r#"{"n":1.10}"#));
        let event = parse(br#"{"type":"a","subject":"s","data":null}"#).expect("valid");
        assert_eq!(event.payload.as_json(), Some("null"));
        let event = parse(br#"{"type":"a","subject":"s"}"#).expect("valid");
        assert_eq!(event.payload.as_json(), Some("{}"));
    }

    #[test]
    fn the_place_in_a_batch_is_read_from_the_message() {
        let found = place_in_batch("event 7 of the batch: type: x is not declared");
        assert_eq!(found, Some((7, "type: x is not declared".to_owned())));
        assert_eq!(place_in_batch("event 0 of the batch: x"), None);
    }
}
