//! The one error of this crate: a value from outside that cannot be accepted.
//!
//! How it fails: it does not. Invariant: the text names the field and says what would be right.

use std::error::Error;
use std::fmt;

/// A value that was refused, with the field it was meant for and what would be right.
///
/// ```
/// let refused = postrider_core::TypeName::parse("order..placed").unwrap_err();
/// assert_eq!(refused.field(), "type");
/// assert!(refused.to_string().contains("empty segment"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invalid {
    field: &'static str,
    problem: String,
}

impl Invalid {
    /// Refuses the value of `field`; `problem` is a lower-case sentence fragment for a person.
    pub fn new(field: &'static str, problem: impl Into<String>) -> Self {
        Self { field, problem: problem.into() }
    }

    /// The field that was refused, in the words of the documentation.
    #[must_use]
    pub fn field(&self) -> &'static str {
        self.field
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.problem)
    }
}

impl Error for Invalid {}

/// Refuses text that is empty, longer than `bytes_max`, or holds a NUL or control character.
pub(crate) fn check_text(
    field: &'static str,
    value: &str,
    bytes_max: usize,
) -> Result<(), Invalid> {
    if value.is_empty() {
        return Err(Invalid::new(field, "is empty"));
    }
    check_optional_text(field, value, bytes_max)
}

/// As [`check_text`], where the empty text is allowed.
pub(crate) fn check_optional_text(
    field: &'static str,
    value: &str,
    bytes_max: usize,
) -> Result<(), Invalid> {
    if value.len() > bytes_max {
        let found = value.len();
        return Err(Invalid::new(field, format!("is {found} bytes long, at most {bytes_max} fit")));
    }
    if value.chars().any(char::is_control) {
        return Err(Invalid::new(
            field,
            "holds a control character (NUL, line break, tab or such)",
        ));
    }
    Ok(())
}
