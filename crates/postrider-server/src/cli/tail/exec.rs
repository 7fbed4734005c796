//! Runs a command for an event.
//!
//! How it fails: a command that cannot be started, fails or is killed means "try again", with the end
//! of its standard error as the reason; 65 means "never". Invariant: a command that runs too long or is
//! called off is ended with everything it started.

use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use postrider::{Delivery, Outcome};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStderr, Command};

/// The exit code for input that will never do: EX_DATAERR of sysexits.h.
const DATA_ERROR: i32 = 65;
/// How much of the end of standard error is kept as the reason.
const REASON_BYTES: usize = 2 * 1024;
/// How long to read standard error after the command has ended: a process that it left behind may
/// hold it open for ever.
const READ_ON: Duration = Duration::from_millis(200);

/// Runs `command` for one delivery.
pub(super) async fn run(command: Arc<str>, delivery: Delivery) -> Outcome {
    match attempt(&command, &delivery).await {
        Ok((status, _)) if status.success() => Outcome::Done(None),
        Ok((status, reason)) => {
            let ended = match (status.code(), status.signal()) {
                (Some(code), _) => format!("exit code {code}"),
                (None, signal) => format!("ended by signal {}", signal.unwrap_or_default()),
            };
            let reason = match reason.trim() {
                "" => ended,
                said => format!("{ended}: {said}"),
            };
            match status.code() {
                Some(DATA_ERROR) => Outcome::Discard(reason),
                _ => Outcome::Retry(reason),
            }
        }
        Err(error) => Outcome::Retry(format!("the command cannot be run: {error}")),
    }
}

async fn attempt(command: &str, delivery: &Delivery) -> std::io::Result<(ExitStatus, String)> {
    let event = &delivery.event;
    let mut child = Command::new("sh")
        .args(["-c", command])
        .env("POSTRIDER_EVENT_ID", event.id.to_string())
        .env("POSTRIDER_EVENT_TYPE", &event.event_type)
        .env("POSTRIDER_EVENT_SUBJECT", &event.subject)
        .env("POSTRIDER_EVENT_ATTEMPT", delivery.attempt.to_string())
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        // A group of its own: Ctrl-C reaches us and not the command, which may finish its work.
        .process_group(0)
        .spawn()?;
    let mut group = Group::of(&child);
    let (stdin, stderr) = (child.stdin.take(), child.stderr.take());
    let line = serde_json::to_vec(event)?;
    let writing = async {
        if let Some(mut stdin) = stdin {
            // A command need not read it, and closes the pipe then.
            let _ = stdin.write_all(&line).await;
            let _ = stdin.write_all(b"\n").await;
        }
    };
    let mut reason = Vec::new();
    let status = {
        let waiting = async {
            let ((), status) = tokio::join!(writing, child.wait());
            status
        };
        let mut reading = std::pin::pin!(read_tail(stderr, &mut reason));
        let mut waiting = std::pin::pin!(waiting);
        tokio::select! {
            status = &mut waiting => {
                let _ = tokio::time::timeout(READ_ON, &mut reading).await;
                status?
            }
            () = &mut reading => waiting.await?,
        }
    };
    group.ended();
    // PostgreSQL's texts hold no NUL.
    Ok((status, String::from_utf8_lossy(&reason).replace('\0', "\u{fffd}")))
}

/// Passes standard error on and keeps its end.
async fn read_tail(stderr: Option<ChildStderr>, kept: &mut Vec<u8>) {
    let Some(mut stderr) = stderr else { return };
    let mut buffer = vec![0; 8 * 1024];
    while let Ok(length) = stderr.read(&mut buffer).await {
        if length == 0 {
            return;
        }
        // Our own standard error may be closed; the command's words are kept all the same.
        let _ = tokio::io::stderr().write_all(&buffer[..length]).await;
        kept.extend_from_slice(&buffer[..length]);
        let over = kept.len().saturating_sub(REASON_BYTES);
        kept.drain(..over);
    }
}

/// The processes of a command, killed when dropped before the command has ended.
struct Group(Option<Pid>);

impl Group {
    fn of(child: &Child) -> Self {
        Self(child.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw))
    }

    fn ended(&mut self) {
        self.0 = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // It may have ended in this very moment.
            let _ = killpg(group, Signal::SIGKILL);
        }
    }
}
