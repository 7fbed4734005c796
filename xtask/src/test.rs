//! `cargo xtask test`: all tests, against services which start and stop with them.

use crate::process::{announce, cargo, run as run_command};
use crate::services::{self, Services};
use std::time::Instant;

/// Starts the services, builds the programs that tests start, runs `cargo test` with the given
/// arguments, and stops the services, whatever happens in between.
///
/// # Errors
///
/// When a service is missing, the build fails or a test fails; with the exit code of the command.
pub(crate) async fn run(arguments: &[String]) -> anyhow::Result<()> {
    let begin = Instant::now();
    announce("services for the tests");
    let services = services::start().await?;
    let result = build_and_test(arguments, &services).await;
    let stopped = services.stop().await;
    // A failure of the tests is the more important one, and its exit code is passed through.
    let result = result.and(stopped);
    let verdict = if result.is_ok() { "passed" } else { "failed" };
    eprintln!("\ntests {verdict} after {:.0} s", begin.elapsed().as_secs_f64());
    result
}

async fn build_and_test(arguments: &[String], services: &Services) -> anyhow::Result<()> {
    // Tests of whole processes start the program `postrider`. Building it in the same selection and
    // with the same features as the tests avoids building its dependencies twice.
    run_command(cargo(["build", "--workspace", "--bins", "--all-features"])).await?;
    let mut test = cargo(["test", "--all-features"]);
    test.args(selection(arguments)).envs(services.environment());
    run_command(test).await
}

/// What `cargo test` is to run: the whole workspace, unless the arguments name packages.
fn selection(arguments: &[String]) -> Vec<String> {
    let arguments = match arguments.split_first() {
        Some((first, rest)) if first == "--" => rest,
        _ => arguments,
    };
    let mut for_cargo = arguments.iter().take_while(|argument| *argument != "--");
    let names_packages =
        for_cargo.any(|argument| argument.starts_with("-p") || argument.starts_with("--package"));
    let workspace = (!names_packages).then(|| "--workspace".to_owned());
    workspace.into_iter().chain(arguments.iter().cloned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selected(arguments: &[&str]) -> Vec<String> {
        selection(&arguments.iter().map(ToString::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn without_arguments_the_whole_workspace_is_tested() {
        assert_eq!(selected(&[]), ["--workspace"]);
        assert_eq!(selected(&["--", "retry"]), ["--workspace", "retry"]);
    }

    #[test]
    fn packages_can_be_named() {
        assert_eq!(selected(&["-p", "postrider"]), ["-p", "postrider"]);
        assert_eq!(selected(&["--package=postrider"]), ["--package=postrider"]);
    }

    #[test]
    fn arguments_of_the_test_programs_are_left_alone() {
        let expected = ["--workspace", "retry", "--", "-p"];
        assert_eq!(selected(&["--", "retry", "--", "-p"]), expected);
    }
}
