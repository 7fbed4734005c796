//! How a command fails: a sentence, hints, an exit code.
//!
//! Exit codes: 1 a negative answer or a failed operation, 2 usage, configuration, or input on the
//! command line that is refused, 3 database unreachable. How it fails: it does not. Invariant: a
//! message is for a person; no debug dump.

use std::fmt::Display;
use std::io::{self, Write as _};
use std::process::ExitCode;

use postrider::{Blame, Error, ErrorKind, Schema};

/// A failed operation or a negative answer.
pub(super) const FAILED: u8 = 1;
/// Usage, configuration, or input on the command line that is refused.
pub(super) const USAGE: u8 = 2;
/// The database cannot be reached.
pub(super) const UNREACHABLE: u8 = 3;

/// Why a command ended without success.
#[derive(Debug)]
pub(super) struct Failure {
    message: String,
    hints: Vec<String>,
    code: u8,
    /// Whether the hint is to bring the schema up to date.
    wants_migration: bool,
}

impl Failure {
    /// A negative answer or a failed operation.
    pub(super) fn operation(message: impl Display) -> Self {
        Self {
            message: message.to_string(),
            hints: Vec::new(),
            code: FAILED,
            wants_migration: false,
        }
    }

    /// A mistake in how the command was called or set up.
    pub(super) fn usage(message: impl Display) -> Self {
        Self {
            message: message.to_string(),
            hints: Vec::new(),
            code: USAGE,
            wants_migration: false,
        }
    }

    /// Adds what to do.
    pub(super) fn hint(mut self, hint: impl Display) -> Self {
        self.hints.push(hint.to_string());
        self
    }

    /// Replaces the exit code, except the one that says that there is no database.
    pub(super) fn code(mut self, code: u8) -> Self {
        if self.code != UNREACHABLE {
            self.code = code;
        }
        self
    }

    /// Replaces the message.
    pub(super) fn message_is(mut self, message: String) -> Self {
        self.message = message;
        self
    }

    /// Puts words before the message.
    pub(super) fn prefixed(mut self, words: impl Display) -> Self {
        self.message = format!("{words}{}", self.message);
        self
    }

    /// The message, for a JSON answer that has one.
    pub(super) fn message(&self) -> &str {
        &self.message
    }

    /// Adds the hint that only who knows the schema can give.
    pub(super) fn in_schema(self, schema: &Schema) -> Self {
        match self.wants_migration {
            true => self.hint(format_args!("run: {}", schema.migrate_command())),
            false => self,
        }
    }

    /// Writes it to standard error and gives its exit code.
    pub(super) fn tell(&self) -> ExitCode {
        let mut text = String::new();
        if !self.message.is_empty() {
            text.push_str(&format!("error: {}\n", self.message));
        }
        for hint in &self.hints {
            text.push_str(&format!("hint: {hint}\n"));
        }
        // Nobody is left to be told when standard error is closed.
        let _ = io::stderr().write_all(text.as_bytes());
        ExitCode::from(self.code)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let code = match (error.kind(), error.blame()) {
            (ErrorKind::Unreachable, _) => UNREACHABLE,
            (_, Blame::Configuration) => USAGE,
            // A glob is right or wrong by the types that are declared, as a type is.
            (ErrorKind::Invalid, _) if error.field() == Some("globs") => FAILED,
            // What a command hands over comes from its flags; NDJSON says otherwise itself.
            (ErrorKind::Invalid | ErrorKind::TooLarge, _) => USAGE,
            _ => FAILED,
        };
        let mut message = error.to_string();
        if let Some(below) = std::error::Error::source(&error)
            && let Some(below) = below.downcast_ref::<Error>().map(ToString::to_string)
            && !message.contains(&below)
        {
            message.push_str(&format!(": {below}"));
        }
        if error.kind() == ErrorKind::Database
            && let Some(code) = error.sqlstate()
        {
            message.push_str(&format!(" (SQLSTATE {code})"));
        }
        let hint = error.hint().map(str::to_owned);
        let wants_migration = hint.is_none() && error.kind() == ErrorKind::Schema;
        Self { message, hints: hint.into_iter().collect(), code, wants_migration }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            // Who reads our output has seen enough; there is nothing to say and nobody to hear it.
            io::ErrorKind::BrokenPipe => {
                Self { message: String::new(), hints: Vec::new(), code: 0, wants_migration: false }
            }
            _ => Self::operation(format!("writing failed: {error}")),
        }
    }
}
