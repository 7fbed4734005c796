//! `postrider demo`.

use std::process::ExitCode;

/// Options of the demo.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Runs the demo.
pub fn main(_args: Args) -> ExitCode {
    ExitCode::SUCCESS
}
