//! The vocabulary of Postrider and every decision that needs no database.
//!
//! What it is: events and their types, the globs that select them, subscriptions and their
//! policies, the states of a job and the outcomes of a handler. Nothing here does I/O, knows SQL
//! or needs a runtime, so third-party sinks and test tools can depend on it alone.
//!
//! How it fails: every constructor that takes text from outside returns [`Invalid`], which names
//! the field, says what was wrong and what would be right.
//!
//! Invariants: a value that exists is valid (parse, don't validate); a backoff is never negative,
//! never zero for a retry and never above its cap; a job moves only along [`JobState::may_become`].

mod backoff;
mod event;
mod event_type;
mod glob;
mod invalid;
mod job;
mod json;
mod kind;
mod new_job;
mod outcome;
mod policy;
mod subscription;
pub mod text;

pub use backoff::Backoff;
pub use event::{
    DATA_BYTES_MAX, Event, HEADERS_BYTES_MAX, Headers, KEY_BYTES_MAX, NewEvent, Payload,
    RESERVED_HEADER_PREFIX, SUBJECT_BYTES_MAX, TENANT_BYTES_MAX,
};
pub use event_type::{EventType, Exposure, RESERVED_TYPE_PREFIX, TYPE_BYTES_MAX, TypeName};
pub use glob::{Glob, Globs};
pub use invalid::Invalid;
pub use job::{JobState, Origin, Settled};
pub use kind::Kind;
pub use new_job::{ARGUMENTS_BYTES_MAX, NewJob, Unique};
pub use outcome::{HandlerError, IntoOutcome, Outcome};
pub use policy::{Policy, Priority};
pub use subscription::{GLOBS_MAX, NAME_BYTES_MAX, SinkKind, Source, Subscription};
/// The type of event ids, so that nobody has to match the version of its crate.
pub use uuid::Uuid;
