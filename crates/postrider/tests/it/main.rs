//! Everything that needs PostgreSQL: one program, a database for each test.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on may say so by panicking")]

mod cases_b35;
mod fixture;
mod floor;
mod migrate;
mod path;
mod schema;
mod schema_violations;
