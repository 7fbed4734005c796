//! What a handler says about a job when it is done with it.
//!
//! How it fails: it does not. Invariant: every way a handler can end maps to exactly one
//! [`Outcome`]; an error that is not marked otherwise means "try again".

use std::error::Error;
use std::fmt;
use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;

use crate::Invalid;

/// The end of one attempt.
#[derive(Debug, Clone)]
pub enum Outcome {
    /// The work is done; the output, if any, is kept with the job.
    Done(Option<Box<RawValue>>),
    /// The attempt failed; try again as the policy says, until the attempts are used up.
    Retry(String),
    /// Not now: come back after this time. Uses no attempt.
    Snooze(Duration),
    /// It will never work: give the job up at once.
    Discard(String),
}

impl Outcome {
    /// Done, with an output that can be read with the job, as JSON.
    ///
    /// # Errors
    /// [`Invalid`] when the value cannot be written as JSON.
    pub fn done_with<T: Serialize + ?Sized>(output: &T) -> Result<Self, Invalid> {
        serde_json::value::to_raw_value(output)
            .map(|text| Self::Done(Some(text)))
            .map_err(|error| Invalid::new("output", format!("cannot be written as JSON: {error}")))
    }
}

/// The error of a handler: retried, unless it says that it is permanent.
///
/// Any error becomes one through `?`, and means "try again".
///
/// ```
/// use postrider_core::HandlerError;
/// fn handle(text: &str) -> Result<(), HandlerError> {
///     let amount: i64 = text.parse()?; // a retry
///     if amount < 0 {
///         return Err(HandlerError::permanent("a negative amount will not get better"));
///     }
///     Ok(())
/// }
/// assert!(handle("x").is_err());
/// ```
pub struct HandlerError {
    cause: Box<dyn Error + Send + Sync>,
    permanent: bool,
}

impl HandlerError {
    /// An error after which the job is tried again.
    pub fn retry(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { cause: cause.into(), permanent: false }
    }

    /// An error that no further attempt can mend: the job is discarded.
    pub fn permanent(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { cause: cause.into(), permanent: true }
    }
}

impl<E: Into<Box<dyn Error + Send + Sync>>> From<E> for HandlerError {
    fn from(cause: E) -> Self {
        Self::retry(cause)
    }
}

impl fmt::Display for HandlerError {
    /// Writes the error and each of its causes, joined by colons.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.cause)?;
        let mut source = self.cause.source();
        while let Some(cause) = source {
            write!(f, ": {cause}")?;
            source = cause.source();
        }
        Ok(())
    }
}

impl fmt::Debug for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandlerError")
            .field("cause", &self.cause)
            .field("permanent", &self.permanent)
            .finish()
    }
}

/// Everything a handler may return.
pub trait IntoOutcome {
    /// Turns the value into the outcome of the attempt.
    fn into_outcome(self) -> Outcome;
}

impl IntoOutcome for () {
    fn into_outcome(self) -> Outcome {
        Outcome::Done(None)
    }
}

impl IntoOutcome for Outcome {
    fn into_outcome(self) -> Outcome {
        self
    }
}

impl<T: IntoOutcome> IntoOutcome for Result<T, HandlerError> {
    fn into_outcome(self) -> Outcome {
        match self {
            Ok(value) => value.into_outcome(),
            Err(error) if error.permanent => Outcome::Discard(error.to_string()),
            Err(error) => Outcome::Retry(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_means_retry_unless_it_is_permanent() {
        let retry: Result<(), HandlerError> = Err("later".into());
        assert!(matches!(retry.into_outcome(), Outcome::Retry(text) if text == "later"));
        let never: Result<(), HandlerError> = Err(HandlerError::permanent("never"));
        assert!(matches!(never.into_outcome(), Outcome::Discard(text) if text == "never"));
    }
}
