//! The error of this crate: what was wrong, what to do, and whose fault it is.
//!
//! How it fails: it does not. Invariant: the text never repeats the text of its source.

use std::error::Error as StdError;
use std::fmt;

use postrider_core::Invalid;

/// What kind of error it is; [`ErrorKind::blame`] says whose fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A value breaks a rule. Nothing was changed.
    Invalid,
    /// The event's type was never declared.
    UndeclaredType,
    /// The job's kind was never declared.
    UndeclaredKind,
    /// The payload is over the limit.
    TooLarge,
    /// The id was recorded before with other content.
    IdTaken,
    /// The job is no longer held under the caller's lease.
    Stale,
    /// There is no such thing.
    NotFound,
    /// The thing is not in a state in which this can be done.
    Conflict,
    /// Too much at once: a limit on waiting callers or connections was reached.
    Busy,
    /// The configuration cannot work.
    Configuration,
    /// The database cannot be reached, or the connection broke.
    Unreachable,
    /// The database's schema is missing, older or newer than this program.
    Schema,
    /// The database refused a statement.
    Database,
    /// Postrider is wrong; please report it.
    Bug,
}

/// Whose fault an error is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Blame {
    /// Who called: other input would do.
    Caller,
    /// Who set the program up.
    Configuration,
    /// The database or the way to it; trying again later may do.
    Database,
    /// Postrider itself.
    Bug,
}

impl ErrorKind {
    /// Whose fault errors of this kind are.
    ///
    /// ```
    /// use postrider::{Blame, ErrorKind};
    /// assert_eq!(ErrorKind::UndeclaredType.blame(), Blame::Caller);
    /// ```
    #[must_use]
    pub fn blame(self) -> Blame {
        match self {
            Self::Invalid
            | Self::UndeclaredType
            | Self::UndeclaredKind
            | Self::TooLarge
            | Self::IdTaken
            | Self::Stale
            | Self::NotFound
            | Self::Conflict
            | Self::Busy => Blame::Caller,
            Self::Configuration | Self::Schema => Blame::Configuration,
            Self::Unreachable | Self::Database => Blame::Database,
            Self::Bug => Blame::Bug,
        }
    }
}

/// An error of Postrider.
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    message: String,
    hint: Option<String>,
    field: Option<String>,
    sqlstate: Option<String>,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl Error {
    /// An error of `kind` with a message for a person.
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            message: message.into(),
            hint: None,
            field: None,
            sqlstate: None,
            source: None,
        }))
    }

    /// Adds what to do about it.
    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// Adds the field of the input that was refused.
    pub(crate) fn with_field(mut self, field: impl Into<String>) -> Self {
        self.0.field = Some(field.into());
        self
    }

    /// Adds the error below.
    pub(crate) fn with_source(
        mut self,
        source: impl Into<Box<dyn StdError + Send + Sync>>,
    ) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// An error that the database reported, sorted by its SQLSTATE.
    pub(crate) fn from_report(report: Report) -> Self {
        let kind = match report.sqlstate.as_deref() {
            None if report.refused => ErrorKind::Database,
            code => kind_of_sqlstate(code),
        };
        let mut error = Self::new(kind, report.message);
        error.0.hint = report.hint.filter(|hint| !hint.is_empty());
        error.0.field = report.column.filter(|column| !column.is_empty());
        error.0.sqlstate = report.sqlstate;
        error.0.source = report.source;
        error
    }

    /// What kind of error it is.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Whose fault it is.
    #[must_use]
    pub fn blame(&self) -> Blame {
        self.0.kind.blame()
    }

    /// What to do about it, where that is known.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }

    /// The field of the input that was refused, where one was.
    #[must_use]
    pub fn field(&self) -> Option<&str> {
        self.0.field.as_deref()
    }

    /// The five characters by which PostgreSQL names the error, where it came from there.
    #[must_use]
    pub fn sqlstate(&self) -> Option<&str> {
        self.0.sqlstate.as_deref()
    }

    /// Whether it says that the way to the server is broken, or that the server is not the one that
    /// takes writes.
    #[cfg(feature = "engine")]
    pub(crate) fn is_of_the_server(&self) -> bool {
        self.kind() == ErrorKind::Unreachable || self.sqlstate() == Some("25006")
    }

    /// Whether the same call may succeed later without a change: the database was away, overloaded,
    /// or ended the transaction to untangle it from another.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        self.0.kind == ErrorKind::Unreachable
            || matches!(self.sqlstate(), Some("40001" | "40P01" | "55P03" | "25006"))
            || self.sqlstate().is_some_and(|code| code.starts_with("53"))
    }
}

/// What a driver knows about an error of the database.
#[derive(Default)]
pub(crate) struct Report {
    /// Whether the server answered at all, even if the driver does not say with which code.
    pub(crate) refused: bool,
    pub(crate) sqlstate: Option<String>,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
    pub(crate) column: Option<String>,
    pub(crate) source: Option<Box<dyn StdError + Send + Sync>>,
}

/// Sorts SQLSTATEs; the `PR…` codes are those of the schema's own functions.
fn kind_of_sqlstate(sqlstate: Option<&str>) -> ErrorKind {
    match sqlstate {
        None => ErrorKind::Unreachable,
        Some("PR001") => ErrorKind::UndeclaredType,
        Some("PR002") => ErrorKind::Invalid,
        Some("PR003") => ErrorKind::TooLarge,
        Some("PR004") => ErrorKind::IdTaken,
        Some("PR005") => ErrorKind::Stale,
        Some("PR006") => ErrorKind::Bug,
        Some("PR007") => ErrorKind::UndeclaredKind,
        // Text or JSON that PostgreSQL cannot hold: NUL, lone surrogates, numbers out of range.
        Some(
            "22P02" | "22P05" | "22021" | "22003" | "22007" | "22008" | "22015" | "22032" | "2203G",
        ) => ErrorKind::Invalid,
        Some("28000" | "28P01" | "3D000" | "42501") => ErrorKind::Configuration,
        Some("3F000" | "42P01" | "42883" | "42704") => ErrorKind::Schema,
        // The server ended a transaction that fell silent, and the connection with it.
        Some("25P03") => ErrorKind::Unreachable,
        Some(code) if code.starts_with("08") || code.starts_with("57P") => ErrorKind::Unreachable,
        Some(_) => ErrorKind::Database,
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("kind", &self.0.kind)
            .field("message", &self.0.message)
            .field("hint", &self.0.hint)
            .field("sqlstate", &self.0.sqlstate)
            .field("source", &self.0.source)
            .finish()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_ref().map(|source| source.as_ref() as &(dyn StdError + 'static))
    }
}

impl From<Invalid> for Error {
    fn from(invalid: Invalid) -> Self {
        Self::new(ErrorKind::Invalid, invalid.to_string()).with_field(invalid.field())
    }
}
