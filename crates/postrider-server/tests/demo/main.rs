//! The demo as its visitors run it: the real binary, real worker processes, a database of its own.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test, like the tests")]

mod interference;
mod run;
mod stage;
mod verdict;
