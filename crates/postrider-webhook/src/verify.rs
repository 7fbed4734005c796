//! Verifying a message as it came over the wire.
//!
//! How it fails: [`Refusal`]. Invariants: any matching signature of any of the secrets is enough,
//! so that secrets can be rotated; versions that are not known are passed over.

use crate::{Message, Refusal, VerifyingSecret};

/// How far a timestamp may be from the receiver's clock, either way.
pub const TOLERANCE_SECONDS: u64 = 300;

/// What the timestamp is held against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Now {
    /// The receiver's clock, in Unix seconds.
    At(u64),
    /// Nothing: the timestamp may be any. For looking into a message of the past, never for
    /// receiving, where it would let anybody replay what was once overheard.
    AnyTime,
}

/// What verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verified {
    /// Which of the secrets, counted from 0.
    pub secret: usize,
    /// The version of its signature.
    pub version: &'static str,
}

/// Verifies a message: the values of the headers `webhook-id`, `webhook-timestamp` and
/// `webhook-signature`, and the body before anything has parsed it.
///
/// # Errors
///
/// [`Refusal`] with the reason.
pub fn verify(
    secrets: &[VerifyingSecret],
    id: &str,
    timestamp: &str,
    signatures: &str,
    body: &[u8],
    now: Now,
) -> Result<Verified, Refusal> {
    let at = seconds(timestamp)?;
    let message = Message::new(id, at, body)?;
    check_time(at, now)?;
    if signatures.split_ascii_whitespace().next().is_none() {
        return Err(Refusal::NoSignature);
    }
    let refusal = match matching(secrets, &message, signatures) {
        Ok(verified) => return Ok(verified),
        Err(refusal) => refusal,
    };
    if refusal != Refusal::Mismatch {
        return Err(refusal);
    }
    // The usual slip of a shell: `echo` and editors end a body with a line end.
    let bare = body.strip_suffix(b"\n").map(|bare| bare.strip_suffix(b"\r").unwrap_or(bare));
    let fits = |message: Message<'_>| matching(secrets, &message, signatures).is_ok();
    match bare {
        Some(bare) if Message::new(id, at, bare).is_ok_and(fits) => Err(Refusal::TrailingNewline),
        _ => Err(Refusal::Mismatch),
    }
}

fn seconds(timestamp: &str) -> Result<u64, Refusal> {
    let at: u64 = timestamp.parse().map_err(|_| Refusal::MalformedTimestamp)?;
    // Another spelling of the number, such as +1 or 01, is not what was signed.
    (at.to_string() == timestamp).then_some(at).ok_or(Refusal::MalformedTimestamp)
}

fn check_time(at: u64, now: Now) -> Result<(), Refusal> {
    let Now::At(now) = now else {
        return Ok(());
    };
    match (now.saturating_sub(at), at.saturating_sub(now)) {
        (age, _) if age > TOLERANCE_SECONDS => Err(Refusal::TooOld(age)),
        (_, ahead) if ahead > TOLERANCE_SECONDS => Err(Refusal::TooNew(ahead)),
        _ => Ok(()),
    }
}

/// The first secret that one of the signatures is of.
fn matching(
    secrets: &[VerifyingSecret],
    message: &Message<'_>,
    signatures: &str,
) -> Result<Verified, Refusal> {
    let signed = message.signed();
    let wanted = secrets.first().map_or("v1", VerifyingSecret::version);
    let mut refusal = Refusal::OtherVersion { wanted };
    for (number, secret) in secrets.iter().enumerate() {
        for signature in signatures.split_ascii_whitespace() {
            let Some((version, base64)) = signature.split_once(',') else { continue };
            if version != secret.version() {
                continue;
            }
            match secret.matches(&signed, base64) {
                Some(true) => return Ok(Verified { secret: number, version: secret.version() }),
                Some(false) => refusal = Refusal::Mismatch,
                None if refusal != Refusal::Mismatch => refusal = Refusal::MalformedSignature,
                None => {}
            }
        }
    }
    Err(refusal)
}
