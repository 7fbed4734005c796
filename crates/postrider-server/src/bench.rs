//! `postrider bench`: how fast, as a ratio against hand-written SQL on the same server.
//!
//! What it is: each bench runs both sides in turns for some rounds and compares medians of ratios.
//! Absolute figures are printed and mean nothing across machines or days.
//!
//! How it fails: exit code 1 when a bar is not met. Invariant: without a database URL it measures
//! on a private server with fsync on.

mod endurance;
mod latency;
mod load;
mod place;
mod report;
mod rounds;

use std::fmt;
use std::process::ExitCode;

use self::place::Place;

/// What to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Kind {
    /// `record` against a hand-written outbox insert.
    Write,
    /// The relay against a hand-written fan-out.
    Fanout,
    /// No-op handlers against a hand-written drain.
    Drain,
    /// From a commit to the start of its handler.
    Latency,
    /// Fan-out and settles while a snapshot is held open.
    Held,
    /// Fan-out with five million events owed.
    Backlog,
}

/// Options of a bench.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What to measure.
    kind: Kind,
    /// How many rounds, each with both sides.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: u16,
    /// Seconds for each side of a round, where a side is timed.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// Events or jobs of a round, where a side is counted.
    #[arg(long, value_parser = clap::value_parser!(i64).range(1_000..=10_000_000))]
    events: Option<i64>,
    /// How many jobs run at once in `drain`.
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    concurrency: u16,
}

/// The options as the benches take them.
struct Settings {
    rounds: usize,
    seconds: u64,
    events: Option<i64>,
    concurrency: usize,
}

/// Runs one bench. `url` of none means a private server.
pub(crate) fn main(args: &Args, url: Option<&str>, json: bool) -> ExitCode {
    let runtime = tokio::runtime::Runtime::new();
    let outcome = match runtime {
        Ok(runtime) => runtime.block_on(run(args, url)),
        Err(error) => Err(BenchError::from_display(error)),
    };
    match outcome {
        Ok(report) => {
            report.print(json);
            if report.met() { ExitCode::SUCCESS } else { ExitCode::from(1) }
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(1)
        }
    }
}

async fn run(args: &Args, url: Option<&str>) -> Result<report::Report, BenchError> {
    let settings = Settings {
        rounds: args.rounds.into(),
        seconds: args.seconds,
        events: args.events,
        concurrency: args.concurrency.into(),
    };
    let place = Place::new(url).await?;
    let report = match args.kind {
        Kind::Write => rounds::write(&place, &settings).await?,
        Kind::Fanout => rounds::fanout(&place, &settings).await?,
        Kind::Drain => rounds::drain(&place, &settings).await?,
        Kind::Latency => latency::latency(&place, &settings).await?,
        Kind::Held => endurance::held(&place, &settings).await?,
        Kind::Backlog => endurance::backlog(&place, &settings).await?,
    };
    place.leave().await?;
    Ok(report)
}

/// Why a bench could not run.
#[derive(Debug)]
pub(crate) struct BenchError(String);

impl BenchError {
    fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    fn from_display(error: impl fmt::Display) -> Self {
        Self(error.to_string())
    }
}

impl fmt::Display for BenchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<postrider::Error> for BenchError {
    fn from(error: postrider::Error) -> Self {
        Self(error.to_string())
    }
}

impl From<postrider::Invalid> for BenchError {
    fn from(error: postrider::Invalid) -> Self {
        Self(error.to_string())
    }
}

impl From<tokio_postgres::Error> for BenchError {
    fn from(error: tokio_postgres::Error) -> Self {
        match error.as_db_error() {
            Some(report) => Self(format!("PostgreSQL: {}", report.message())),
            None => Self(error.to_string()),
        }
    }
}
