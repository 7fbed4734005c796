//! What every command is given: the database, the schema, and how to speak.
//!
//! How it fails: [`Failure`] with exit code 2 for a URL or schema name that cannot be, 3 for a
//! database that does not answer. Invariant: nothing is connected before a command asks for it.

use std::io::IsTerminal as _;

use clap::builder::{NonEmptyStringValueParser, TypedValueParser as _};
use postrider::admin::Admin;
use postrider::{DEFAULT_SCHEMA, Database, EventType, Glob, Invalid, Schema};
use tracing_subscriber::EnvFilter;

use super::fail::Failure;
use super::output::Output;

/// The options that every command takes.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Global options")]
pub(super) struct Global {
    /// Where PostgreSQL is: postgres://user:password@host:5432/database.
    #[arg(long, global = true, env = "DATABASE_URL", hide_env_values = true, value_name = "URL")]
    pub(super) database_url: Option<String>,
    /// The schema that Postrider lives in.
    #[arg(long, global = true, env = "POSTRIDER_SCHEMA", default_value = DEFAULT_SCHEMA)]
    #[arg(value_name = "NAME", hide_env_values = true)]
    #[arg(value_parser = NonEmptyStringValueParser::new().try_map(Schema::new))]
    pub(super) schema: Schema,
    /// Answer with one JSON document instead of tables.
    #[arg(long, global = true)]
    pub(super) json: bool,
    /// Write no colours; NO_COLOR does the same.
    #[arg(long, global = true)]
    pub(super) no_color: bool,
    /// Log more: -v what happens, -vv details, -vvv everything. RUST_LOG overrules it.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(super) verbose: u8,
}

impl Global {
    /// The database that was named, if one was.
    pub(super) fn url(&self) -> Option<&str> {
        self.database_url.as_deref().filter(|url| !url.is_empty())
    }

    /// Whether `NO_COLOR` or the flag forbids colours.
    fn forbids_color(&self) -> bool {
        self.no_color || std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
    }

    /// Starts the logs, on standard error.
    pub(super) fn init_logs(&self) {
        let level = match self.verbose {
            0 => "warn",
            1 => "info",
            2 => "info,postrider=debug",
            _ => "trace",
        };
        let filter = std::env::var("RUST_LOG")
            .ok()
            .filter(|wanted| !wanted.is_empty())
            .and_then(|wanted| EnvFilter::try_new(wanted).ok())
            .unwrap_or_else(|| EnvFilter::new(level));
        tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(std::io::stderr)
            .with_ansi(!self.forbids_color() && std::io::stderr().is_terminal())
            .init();
    }
}

/// Reads a glob from the command line.
pub(super) fn glob(text: &str) -> Result<Glob, Invalid> {
    Glob::parse(text)
}

/// Reads the name of a type to declare from the command line.
pub(super) fn event_type(text: &str) -> Result<EventType, Invalid> {
    EventType::new(text)
}

/// Refuses what is neither a URL of PostgreSQL nor libpq's keys and values, such as `host=db`.
pub(super) fn check_scheme(url: &str) -> Result<(), Failure> {
    let begins = |scheme: &str| url.starts_with(scheme);
    let is_key = |c: char| c.is_ascii_lowercase() || c == '_' || c.is_ascii_whitespace();
    let has_keys = url.split_once('=').is_some_and(|(key, _)| key.chars().all(is_key));
    if begins("postgres://") || begins("postgresql://") || has_keys {
        return Ok(());
    }
    // The text itself may hold a password and is not repeated.
    Err(Failure::usage("the database URL cannot be used: it does not begin with postgres://")
        .hint("it looks like postgres://user:password@host:5432/database"))
}

/// What a command works with.
#[derive(Debug)]
pub(super) struct Context {
    url: Option<String>,
    pub(super) schema: Schema,
    pub(super) output: Output,
}

impl Context {
    pub(super) fn new(global: Global) -> Self {
        let colors = !global.forbids_color() && std::io::stdout().is_terminal();
        let output = Output { json: global.json, colors };
        Self { url: global.database_url, schema: global.schema, output }
    }

    /// The same for another database.
    pub(super) fn with_url(&self, url: String) -> Self {
        Self { url: Some(url), schema: self.schema.clone(), output: self.output }
    }

    /// The database that was named.
    pub(super) fn database(&self) -> Result<Database, Failure> {
        let Some(url) = self.url.as_deref().filter(|url| !url.is_empty()) else {
            return Err(Failure::usage("no database was named").hint(
                "set DATABASE_URL or give --database-url postgres://user:password@host/database",
            ));
        };
        check_scheme(url)?;
        Ok(Database::new(url)?.pool_size(2))
    }

    /// The door to administration.
    pub(super) async fn admin(&self) -> Result<Admin, Failure> {
        Ok(Admin::connect(&self.database()?, &self.schema).await?)
    }
}
