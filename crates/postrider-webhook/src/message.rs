//! What is signed: the id, the timestamp and the raw body.
//!
//! How it fails: [`Refusal`] for an id that a header cannot carry or that would make the signed
//! bytes ambiguous. Invariant: no two messages have the same signed bytes.

use crate::Refusal;

/// A message as its signature covers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message<'a> {
    id: &'a str,
    timestamp: u64,
    body: &'a [u8],
}

impl<'a> Message<'a> {
    /// A message; the timestamp is that of the attempt in whole Unix seconds, the body is what goes
    /// over the wire, byte for byte.
    ///
    /// # Errors
    ///
    /// [`Refusal::MalformedId`] unless the id is visible ASCII without a dot.
    pub fn new(id: &'a str, timestamp: u64, body: &'a [u8]) -> Result<Self, Refusal> {
        // A dot separates the parts: within an id it would let one signature fit two messages.
        if id.is_empty() || !id.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'.') {
            return Err(Refusal::MalformedId);
        }
        Ok(Self { id, timestamp, body })
    }

    /// The bytes that are signed.
    pub(crate) fn signed(&self) -> Vec<u8> {
        let mut bytes = format!("{}.{}.", self.id, self.timestamp).into_bytes();
        bytes.extend_from_slice(self.body);
        bytes
    }
}
