//! The real binary against real PostgreSQL: what a user types, sees, and gets as exit code.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on may say so by panicking")]

mod administration;
mod doctor;
mod fails;
mod jobs;
mod migrate;
mod program;
mod record;
mod serve;
mod tail;
mod up;
mod verify;
