//! The binary `postrider`: parses the command line, runs the command, and ends with its exit code.
//!
//! How it fails: every error is a sentence on standard error with what to do, and an exit code: 1 a
//! negative answer or a failed operation, 2 usage or configuration, 3 database unreachable.

mod bench;
mod cli;
mod demo;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
