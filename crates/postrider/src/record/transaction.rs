//! The seam between recording and the drivers: a call of an SQL function with texts.
//!
//! How it fails: [`TransactionError`], which each driver fills from its own error. Invariant: a
//! driver does nothing but bind the texts, run the statement in the caller's transaction and give
//! the one text of the one row back.

use std::error::Error as StdError;
use std::fmt;
use std::future::Future;

use crate::Error;
use crate::error::Report;

/// A transaction of some driver, as far as Postrider needs it.
///
/// Implemented for `tokio_postgres::{Client, Transaction}`, and behind features for the
/// transactions of sqlx, diesel-async and SeaORM. Implement it for a wrapper of your own by
/// calling the one inside.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no transaction that Postrider can record in",
    note = "turn on the feature of your driver: tokio-postgres, sqlx, diesel-async or sea-orm"
)]
pub trait Transaction: Send {
    /// Runs `sql` with `params`, each bound as a text, and returns the text in the first column of
    /// the only row. One round trip where the driver can. `sql` mentions `$1` first, then `$2` and
    /// so on, each once.
    fn call(
        &mut self,
        sql: &str,
        params: &[Option<&str>],
    ) -> impl Future<Output = Result<Option<String>, TransactionError>> + Send;
}

/// What a driver knows about a failed call.
///
/// ```
/// let error = postrider::TransactionError::new("connection closed");
/// assert_eq!(postrider::Error::from(error).kind(), postrider::ErrorKind::Unreachable);
/// ```
pub struct TransactionError(Report);

impl TransactionError {
    /// A broken connection, or anything else after which nobody knows what the server did; the
    /// message is for a person. With [`TransactionError::sqlstate`] it becomes what that says.
    pub fn new(message: impl Into<String>) -> Self {
        Self(Report { message: message.into(), ..Report::default() })
    }

    /// An answer of the server that is an error, from a driver that may keep the SQLSTATE to
    /// itself. Add it where it is known.
    ///
    /// ```
    /// let error = postrider::TransactionError::refused("duplicate key value");
    /// assert_eq!(postrider::Error::from(error).kind(), postrider::ErrorKind::Database);
    /// ```
    pub fn refused(message: impl Into<String>) -> Self {
        Self(Report { message: message.into(), refused: true, ..Report::default() })
    }

    /// Adds the SQLSTATE that the server reported.
    #[must_use]
    pub fn sqlstate(mut self, code: impl Into<String>) -> Self {
        self.0.sqlstate = Some(code.into());
        self
    }

    /// Adds the server's hint.
    #[must_use]
    pub fn hint(mut self, hint: Option<&str>) -> Self {
        self.0.hint = hint.map(str::to_owned);
        self
    }

    /// Adds the field that the server's error names as its column.
    #[must_use]
    pub fn column(mut self, column: Option<&str>) -> Self {
        self.0.column = column.map(str::to_owned);
        self
    }

    /// Adds the driver's own error.
    #[must_use]
    pub fn source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }
}

impl fmt::Debug for TransactionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransactionError")
            .field("sqlstate", &self.0.sqlstate)
            .field("message", &self.0.message)
            .finish_non_exhaustive()
    }
}

impl From<TransactionError> for Error {
    fn from(error: TransactionError) -> Self {
        Self::from_report(error.0)
    }
}
