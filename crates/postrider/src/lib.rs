//! <!-- What it is, how it fails and what holds: the README, which is tested with the engine. -->
#![cfg_attr(any(feature = "engine", not(doctest)), doc = include_str!("../README.md"))]

mod error;
mod record;
mod schema;

#[cfg(feature = "engine")]
pub mod admin;
#[cfg(feature = "engine")]
mod connect;
#[cfg(feature = "engine")]
mod engine;
#[cfg(feature = "engine")]
#[doc(hidden)]
pub mod for_tests;
#[cfg(feature = "engine")]
pub mod migrate;
#[cfg(feature = "engine")]
mod periodic;
#[cfg(feature = "engine")]
mod sql;
#[cfg(feature = "engine")]
mod store;

pub use error::{Blame, Error, ErrorKind};
pub use postrider_core::{
    Backoff, Event, EventType, Exposure, Glob, Globs, HandlerError, Headers, IntoOutcome, Invalid,
    JobState, Kind, NewEvent, NewJob, Origin, Outcome, Payload, Policy, Priority, Settled,
    SinkKind, Source, Subscription, TypeName, Unique, Uuid,
};
pub use record::{
    Enqueued, JobArguments, JobLease, Recorder, Transaction, TransactionError, TypedEvent,
};
pub use schema::{DEFAULT_SCHEMA, Schema};

#[cfg(feature = "engine")]
pub use connect::Database;
#[cfg(feature = "engine")]
pub use engine::{Awaited, Delivery, Engine, EngineBuilder, Handle, Health, Part, Trouble};
#[cfg(feature = "engine")]
pub use engine::{Job, JobEnd};
#[cfg(feature = "engine")]
pub use periodic::{CatchUp, Periodic};
