//! Why the demo could not go on, for a person and for the shell.
//!
//! How it fails: it does not. Invariant: the exit code is 1 for what failed, 2 for what is set up
//! wrongly, 3 for a database that does not answer.

use std::fmt::Display;
use std::process::ExitCode;

use postrider::{Blame, ErrorKind};
use postrider_embedded::StartError;

/// What went wrong, what to do about it, and the exit code.
#[derive(Debug)]
pub(super) struct Failure {
    message: String,
    hint: Option<String>,
    code: u8,
}

impl Failure {
    /// Something failed on the way.
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None, code: 1 }
    }

    /// Something is set up in a way that cannot work.
    pub(super) fn configuration(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { message: message.into(), hint: Some(hint.into()), code: 2 }
    }

    /// Says what was being done when it went wrong.
    pub(super) fn while_doing(mut self, what: impl Display) -> Self {
        self.message = format!("{what}: {}", self.message);
        self
    }

    /// Writes it to standard error and returns the exit code.
    pub(super) fn report(&self) -> ExitCode {
        eprintln!("error: {}", self.message);
        if let Some(hint) = &self.hint {
            eprintln!("hint: {hint}");
        }
        ExitCode::from(self.code)
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

/// An error with its causes, joined by colons.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

impl From<postrider::Error> for Failure {
    fn from(error: postrider::Error) -> Self {
        let code = match (error.kind(), error.blame()) {
            (ErrorKind::Unreachable, _) => 3,
            (_, Blame::Configuration) => 2,
            _ => 1,
        };
        // The message of an unreachable database already has its cause in it.
        let message = match error.kind() {
            ErrorKind::Unreachable | ErrorKind::Configuration => error.to_string(),
            _ => chain(&error),
        };
        Self { message, hint: error.hint().map(str::to_owned), code }
    }
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        let code = if error.as_db_error().is_none() { 3 } else { 1 };
        Self { message: chain(&error), hint: None, code }
    }
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        // What to install, and the end of the server's log, are in the message.
        let code = if matches!(error, StartError::Find(_) | StartError::NoAccount) { 2 } else { 1 };
        Self { message: chain_without_repeats(&error), hint: None, code }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::new(error.to_string())
    }
}

/// A transparent error prints its source already.
fn chain_without_repeats(error: &StartError) -> String {
    match error {
        StartError::Find(find) => find.to_string(),
        other => chain(other),
    }
}
