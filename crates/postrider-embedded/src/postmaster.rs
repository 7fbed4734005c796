//! The server's first process, which PostgreSQL calls the postmaster, on a leash.
//!
//! The postmaster is started by a small shell script (`watchdog.sh`), which reads from a pipe whose
//! other end we hold. If we end in any way, SIGKILL included, the script sees the end of the pipe,
//! stops the server and removes temporary data. This needs no unsafe code and no feature of one
//! particular operating system.

use crate::directory::Directory;
use crate::initdb::prepare;
use crate::{Binaries, StartError};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// The script that holds the leash.
const WATCHDOG: &str = include_str!("watchdog.sh");

/// How often to look whether the server has ended.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// A signal, and how long to wait for its effect before the next one.
pub(crate) type Step = (Signal, Duration);

/// Ends sessions, writes everything to disk, ends. Then ever harder.
pub(crate) const STOP_CLEANLY: [Step; 3] = [
    (Signal::SIGINT, Duration::from_secs(10)),
    (Signal::SIGQUIT, Duration::from_secs(5)),
    (Signal::SIGKILL, Duration::from_secs(5)),
];

/// For data that will be thrown away: nothing is written to disk any more.
pub(crate) const STOP_AT_ONCE: [Step; 2] =
    [(Signal::SIGQUIT, Duration::from_secs(3)), (Signal::SIGKILL, Duration::from_secs(3))];

/// For data that are kept, when the caller cannot wait for long.
pub(crate) const STOP_SOON: [Step; 3] = [
    (Signal::SIGINT, Duration::from_secs(5)),
    (Signal::SIGQUIT, Duration::from_secs(2)),
    (Signal::SIGKILL, Duration::from_secs(3)),
];

/// A running server.
#[derive(Debug)]
pub(crate) struct Postmaster {
    /// Ends when the server has ended, with the same status.
    shell: Child,
    /// `None` once the watchdog has been told that the server ended.
    leash: Option<ChildStdin>,
    pid: Pid,
}

impl Postmaster {
    /// Starts the server, which will need some time until it answers.
    pub(crate) fn spawn(
        directory: &Directory,
        binaries: &Binaries,
        port: u16,
        settings: &BTreeMap<String, String>,
    ) -> Result<Self, StartError> {
        let (scrap, polite) = match directory.is_temporary() {
            true => (directory.path().as_os_str(), "QUIT"),
            false => ("".as_ref(), "INT"),
        };
        let mut command = Command::new("/bin/sh");
        command.args(["-c", WATCHDOG, "postrider-watchdog"]).arg(scrap).arg(polite);
        command.arg(directory.log()).arg(binaries.postgres()).arg("-D").arg(directory.data());
        command.arg("-p").arg(port.to_string());
        // Only this machine, and no socket file whose path may be too long for the system.
        for (name, value) in [("listen_addresses", "127.0.0.1"), ("unix_socket_directories", "")] {
            command.arg("-c").arg(format!("{name}={value}"));
        }
        for (name, value) in settings {
            command.arg("-c").arg(format!("{name}={value}"));
        }
        prepare(&mut command, directory);
        // In a process group of its own, so that Ctrl-C at the terminal reaches only us: we decide
        // when the server goes.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
        Self::read_pid(command).map_err(StartError::io("start the server through /bin/sh"))
    }

    fn read_pid(mut command: Command) -> std::io::Result<Self> {
        let mut shell = command.spawn()?;
        let leash = shell.stdin.take();
        let output = shell.stdout.take().expect("standard output is a pipe");
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        let pid = line.trim().parse().map_err(|_| {
            std::io::Error::other(format!("the shell told {line:?} as the process of the server"))
        })?;
        Ok(Self { shell, leash, pid: Pid::from_raw(pid) })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid.as_raw().cast_unsigned()
    }

    /// How the server ended, or `None` while it runs. Also tells the watchdog to go.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        let status = self.shell.try_wait().ok().flatten()?;
        if let Some(mut leash) = self.leash.take() {
            // It fails when somebody killed the watchdog, which then needs no word any more.
            let _ = leash.write_all(b"done\n");
        }
        Some(status)
    }

    /// Sends a signal to the server, if it still runs.
    pub(crate) fn signal(&mut self, signal: Signal) {
        if self.ended().is_none() {
            // It fails only if the server ended in this instant.
            let _ = kill(self.pid, signal);
        }
    }

    /// Stops the server, blocking until it has ended. Returns whether it has.
    pub(crate) fn stop(&mut self, steps: &[Step]) -> bool {
        steps.iter().any(|&(signal, patience)| {
            self.signal(signal);
            let deadline = Instant::now() + patience;
            while self.ended().is_none() && Instant::now() < deadline {
                std::thread::sleep(LOOK_EVERY);
            }
            self.ended().is_some()
        })
    }
}
