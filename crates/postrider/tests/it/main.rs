//! Everything that needs PostgreSQL: one program, a database for each test.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on may say so by panicking")]
#![expect(unreachable_pub, reason = "nobody is outside of a program")]

mod adapters;
mod admin;
mod cases_b18;
mod cases_b35;
mod cases_b40;
mod collect;
mod examples;
mod fixture;
mod floor;
mod maintenance;
mod migrate;
mod path;
mod plans;
mod plans_fill;
mod record_batch;
mod record_ids;
mod record_values;
mod recording;
mod rescue;
mod retention;
mod schema;
mod schema_violations;
