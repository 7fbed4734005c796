//! Why a message does not verify.
//!
//! How it fails: it does not. Invariant: each text says what was wrong in words for whoever looks
//! into it, and holds no secret.

use std::error::Error;
use std::fmt;

/// Why a message does not verify.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// The id is missing or cannot be one.
    MalformedId,
    /// The timestamp is missing or no whole number of seconds.
    MalformedTimestamp,
    /// The timestamp lies too far in the past, by so many seconds.
    TooOld(u64),
    /// The timestamp lies too far in the future, by so many seconds.
    TooNew(u64),
    /// There is no signature at all.
    NoSignature,
    /// No signature is of the version that the secret is for.
    OtherVersion {
        /// The version that the secrets are for.
        wanted: &'static str,
    },
    /// Signatures of the right version are there, but none is base64 of the right length.
    MalformedSignature,
    /// The signature is that of the same message with another body: the one without the line end
    /// that this body ends with.
    TrailingNewline,
    /// Another secret, or another id, timestamp or body: a signature cannot tell which.
    Mismatch,
}

impl Refusal {
    /// A word for programs.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::MalformedId => "malformed_id",
            Self::MalformedTimestamp => "malformed_timestamp",
            Self::TooOld(_) => "too_old",
            Self::TooNew(_) => "too_new",
            Self::NoSignature => "no_signature",
            Self::OtherVersion { .. } => "other_version",
            Self::MalformedSignature => "malformed_signature",
            Self::TrailingNewline => "changed_body",
            Self::Mismatch => "mismatch",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MalformedId => f.write_str("the id is not visible ASCII without a dot"),
            Self::MalformedTimestamp => f.write_str("the timestamp is not whole Unix seconds"),
            Self::TooOld(by) => write!(f, "the timestamp is {by} s in the past, which is too old"),
            Self::TooNew(by) => {
                write!(f, "the timestamp is {by} s in the future, which is too new")
            }
            Self::NoSignature => f.write_str("there is no signature"),
            Self::OtherVersion { wanted } => {
                write!(f, "no signature is of version {wanted}, which the secret is for")
            }
            Self::MalformedSignature => {
                f.write_str("the signature is not base64 of the right length: cut short or changed")
            }
            Self::TrailingNewline => {
                f.write_str("the body was changed: the signed one has no line end after it")
            }
            Self::Mismatch => f.write_str(
                "the signature is of another secret, or the id, timestamp or body was changed",
            ),
        }
    }
}

impl Error for Refusal {}
