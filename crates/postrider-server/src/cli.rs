//! The command line: one variant for each command.
//!
//! How it fails: clap refuses what it cannot parse with exit code 2; a command's own failure is
//! written by [`main`].

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::{bench, demo};

/// Transactional outbox, event bus and delivery engine on PostgreSQL.
#[derive(Debug, Parser)]
#[command(name = "postrider", version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Watch a small shop record events, a worker die, and nothing get lost.
    Demo(demo::Args),
    /// Measure against hand-written SQL on the same server, as ratios.
    Bench {
        #[command(flatten)]
        args: bench::Args,
        /// The server to measure on; a private one otherwise.
        #[arg(long, env = "DATABASE_URL")]
        database_url: Option<String>,
        /// Print one JSON line, last.
        #[arg(long)]
        json: bool,
    },
}

/// Parses, runs, and says how it ended.
pub(crate) fn main() -> ExitCode {
    let cli = Cli::parse();
    match cli.command {
        Command::Demo(args) => demo::main(args),
        Command::Bench { args, database_url, json } => {
            bench::main(&args, database_url.as_deref(), json)
        }
    }
}
