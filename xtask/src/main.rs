//! The project's own chores, run as `cargo xtask CHORE`.

mod ci;
mod process;
mod services;
mod test;
mod tidy;

use std::process::ExitCode;

const HELP: &str = "\
The project's own chores.

Usage: cargo xtask CHORE

Chores:
  test [-- ARGUMENTS]  run all tests against a private PostgreSQL; the arguments go to `cargo test`
  tidy                 check the rules of the project which no other tool knows
  ci                   everything that must pass before a change is merged
  help                 this text

Examples:
  cargo xtask test
  cargo xtask test -- -p postrider retry
  cargo xtask test -- -p postrider retry -- --nocapture";

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (chore, rest) = match arguments.split_first() {
        Some((chore, rest)) => (chore.as_str(), rest),
        None => ("help", &[][..]),
    };
    let result = match (chore, rest) {
        ("test", rest) => test::run(rest).await,
        ("tidy", []) => tidy::run().await,
        ("ci", []) => ci::run().await,
        ("help" | "--help" | "-h", _) => {
            println!("{HELP}");
            return ExitCode::SUCCESS;
        }
        ("tidy" | "ci", [argument, ..]) => {
            Err(anyhow::anyhow!("`cargo xtask {chore}` takes no arguments, but got {argument:?}"))
        }
        (other, _) => Err(anyhow::anyhow!("there is no chore {other:?}\n\n{HELP}")),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error),
    }
}

/// Tells the error, unless it is that of a command which has told it already, and passes that
/// command's exit code through.
fn fail(error: &anyhow::Error) -> ExitCode {
    eprintln!("xtask: {error:#}");
    match error.downcast_ref::<process::Failed>() {
        Some(failed) => ExitCode::from(failed.code),
        None => ExitCode::FAILURE,
    }
}
