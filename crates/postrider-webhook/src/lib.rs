//! Signatures of Standard Webhooks: making, verifying, and saying why one does not verify.
//!
//! What it is: [`SigningSecret`] signs a [`Message`]; [`VerifyingSecret`] verifies it, as
//! HMAC-SHA256 (`v1`) or ed25519 (`v1a`). Nothing here does I/O or looks at a clock: the time is a
//! parameter.
//!
//! How it fails: a secret that cannot be is an [`InvalidSecret`]; whatever does not verify is a
//! [`Refusal`], which says what was wrong.
//!
//! Invariants: a secret that exists has its full length; the signed bytes can be cut into id,
//! timestamp and body in one way only; signatures are compared in constant time; no secret is ever
//! in an error, a debug text or a log.
//!
//! ```
//! use postrider_webhook::{Message, Now, SigningSecret, verify};
//!
//! let secret = SigningSecret::hmac(&[7; 32])?;
//! let message = Message::new("msg_1", 1_614_265_330, b"{}")?;
//! let signature = secret.sign(&message);
//! assert!(signature.starts_with("v1,"));
//! let now = Now::At(1_614_265_331);
//! verify(&[secret.verifying()], "msg_1", "1614265330", &signature, b"{}", now)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod message;
mod refusal;
mod secret;
mod verify;

pub use message::Message;
pub use refusal::Refusal;
pub use secret::{InvalidSecret, SigningSecret, VerifyingSecret};
pub use verify::{Now, TOLERANCE_SECONDS, Verified, verify};
