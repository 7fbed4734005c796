//! Everything that needs PostgreSQL: one program, a database for each test.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on may say so by panicking")]
#![expect(unreachable_pub, reason = "nobody is outside of a program")]

mod adapters;
mod admin;
mod awaiting;
mod cases_b01;
mod cases_b02;
mod cases_b13;
mod cases_b18;
mod cases_b34;
mod cases_b35;
mod cases_b39;
mod cases_b40;
mod coalesce;
mod collect;
mod completing;
mod doorbell;
mod dual_write;
mod examples;
mod fixture;
mod floor;
mod gate;
mod half_open;
mod health;
mod jobs;
mod killed;
mod leases;
mod listener;
mod lost_claims;
mod maintenance;
mod migrate;
mod path;
mod plans;
mod plans_fill;
mod poison;
mod policies;
mod privileges;
mod queues;
mod record_batch;
mod record_ids;
mod record_values;
mod recording;
mod relay;
mod rescue;
mod retention;
mod schema;
mod schema_violations;
mod stopping;
mod subscriptions;
mod support;
mod suspects;
