//! Runs one command and takes care that nothing of it stays behind.
//!
//! A command runs in a process group of its own. On Ctrl-C or SIGTERM the whole group is ended,
//! test programs included, and the chore goes on to stop what it has started itself.

use anyhow::Context as _;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};

/// How long a command may take to end after SIGTERM.
const PATIENCE: Duration = Duration::from_secs(5);

/// What the shell makes of a process that was interrupted.
const INTERRUPTED: u8 = 130;

/// A command failed, and has said why itself.
#[derive(Debug)]
pub(crate) struct Failed {
    what: String,
    /// The exit code to pass through.
    pub(crate) code: u8,
}

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for Failed {}

/// The cargo that runs us, with the given arguments.
pub(crate) fn cargo<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(arguments);
    command
}

/// Says what is being done, in a line that stands out among the output of commands.
pub(crate) fn announce(step: &str) {
    eprintln!("\n==> {step}");
}

/// Announces a command and runs it to its end.
///
/// # Errors
///
/// [`Failed`] when it does not succeed or is interrupted.
pub(crate) async fn run(command: Command) -> anyhow::Result<()> {
    let shown = show(&command);
    announce(&shown);
    let status = run_quietly(command).await?;
    if status.success() {
        return Ok(());
    }
    let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
    Err(Failed { what: format!("`{shown}` failed ({status})"), code }.into())
}

/// Runs a command to its end without a word of ours.
///
/// # Errors
///
/// [`Failed`] when it is interrupted; that it does not succeed is in the status.
pub(crate) async fn run_quietly(mut command: Command) -> anyhow::Result<ExitStatus> {
    let shown = show(&command);
    let (mut interrupt, mut terminate) =
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    command.process_group(0).stdin(Stdio::null()).kill_on_drop(true);
    let mut child = command.spawn().with_context(|| format!("cannot run `{shown}`"))?;
    tokio::select! {
        status = child.wait() => return Ok(status?),
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    end(&mut child).await;
    Err(Failed { what: format!("`{shown}` was interrupted"), code: INTERRUPTED }.into())
}

/// Ends a command and all its children.
async fn end(child: &mut Child) {
    let Some(group) = child.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw) else {
        return;
    };
    // A signal cannot be sent only when nobody is left in the group, which is what we want.
    let _ = killpg(group, Signal::SIGTERM);
    let _ = tokio::time::timeout(PATIENCE, child.wait()).await;
    let _ = killpg(group, Signal::SIGKILL);
    let _ = child.wait().await;
}

/// A command as one would type it.
fn show(command: &Command) -> String {
    let command = command.as_std();
    let program = std::path::Path::new(command.get_program());
    let program = program.file_name().unwrap_or(program.as_os_str());
    let words = std::iter::once(program).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[tokio::test]
    async fn the_exit_code_of_a_command_is_passed_through() {
        let error = run(shell("exit 7")).await.unwrap_err();
        assert_eq!(error.downcast_ref::<Failed>().unwrap().code, 7);
        assert!(error.to_string().contains("`sh -c exit 7` failed"), "{error}");
    }

    #[tokio::test]
    async fn ending_a_command_ends_its_children_too() {
        let mut command = shell("sleep 1000 & echo $!; wait");
        command.process_group(0).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        let output = tokio::process::ChildStdout::into_owned_fd(child.stdout.take().unwrap());
        let mut output = std::io::BufReader::new(std::fs::File::from(output.unwrap()));
        std::io::BufRead::read_line(&mut output, &mut line).unwrap();
        end(&mut child).await;
        // Nobody holds the other end any more, so that reading comes to an end.
        assert_eq!(std::io::Read::read_to_string(&mut output, &mut line).unwrap(), 0);
    }
}
