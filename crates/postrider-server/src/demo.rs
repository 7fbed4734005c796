//! `postrider demo`.

use std::process::ExitCode;

/// Options of the demo.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

/// Runs the demo.
pub(crate) fn main(_args: Args) -> ExitCode {
    ExitCode::SUCCESS
}
