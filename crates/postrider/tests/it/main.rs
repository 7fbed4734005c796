//! Everything that needs PostgreSQL: one program, a database for each test.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on may say so by panicking")]
#![expect(unreachable_pub, reason = "nobody is outside of a program")]

mod adapters;
mod awaiting;
mod cases_b01;
mod cases_b02;
mod coalesce;
mod completing;
mod doorbell;
mod dual_write;
mod examples;
mod fixture;
mod gate;
mod jobs;
mod killed;
mod leases;
mod path;
mod poison;
mod policies;
mod queues;
mod relay;
mod stopping;
mod subscriptions;
mod support;
