//! Everything that needs PostgreSQL: one program, a database for each test.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on may say so by panicking")]
#![expect(unreachable_pub, reason = "nobody is outside of a program")]

mod adapters;
mod examples;
mod fixture;
mod path;
