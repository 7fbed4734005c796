//! The demo as its visitors run it: the real binary, real worker processes, a database of its own.

mod interference;
mod run;
mod stage;
mod verdict;
