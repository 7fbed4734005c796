//! The crew: the worker processes as the demo sees them.
//!
//! How it fails: [`Failure`] when a worker does not start; a worker that dies unexpectedly is
//! reported with its last words and replaced, a few times. Invariants: a worker never outlives the
//! demo: its standard input is a pipe whose other end dies with the demo; a signal from the
//! terminal reaches the demo only, which then stops its workers.

use std::collections::VecDeque;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use super::failure::Failure;
use super::place::Place;
use super::view::View;
use super::worker::READY;

/// How long a worker may take to start on a busy machine.
const START_MAX: Duration = Duration::from_secs(60);
/// How long a worker may take to stop: its drain limit and some more.
const STOP_MAX: Duration = Duration::from_secs(15);
/// How many unexpected deaths are made good before the demo gives up.
const DEATHS_MAX: u32 = 3;
/// How many of a worker's last words are kept.
const WORDS_MAX: usize = 8;

/// The worker processes.
pub(super) struct Crew {
    place: Arc<Place>,
    view: View,
    seed: u64,
    workers: Vec<Worker>,
    deaths: u32,
}

/// A worker process.
struct Worker {
    number: usize,
    /// Counts the processes that have been this worker.
    life: u32,
    child: Child,
    last_words: Arc<Mutex<VecDeque<String>>>,
}

impl Worker {
    /// The name of its session, and of its connections.
    fn name(&self) -> String {
        format!("worker-{}.{}", self.number, self.life)
    }

    fn pid(&self) -> u32 {
        self.child.id().unwrap_or_default()
    }

    fn last_words(&self) -> String {
        let words = self.last_words.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        words.iter().cloned().collect::<Vec<_>>().join("\n")
    }
}

impl Crew {
    /// Starts `count` workers and waits until all of them are ready.
    pub(super) async fn start(
        place: Arc<Place>,
        view: View,
        seed: u64,
        count: usize,
    ) -> Result<Self, Failure> {
        let mut crew = Self { place, view, seed, workers: Vec::new(), deaths: 0 };
        for number in 1..=count {
            let worker = crew.spawn(number, 1).await?;
            crew.view.tell(&format!("Worker {number} is ready (pid {}).", worker.pid()));
            crew.workers.push(worker);
        }
        Ok(crew)
    }

    /// Starts a process and waits until its engine runs.
    async fn spawn(&self, number: usize, life: u32) -> Result<Worker, Failure> {
        let name = format!("worker-{number}.{life}");
        let program = std::env::current_exe()?;
        let mut child = Command::new(program)
            .args(["demo", "--worker", &name, "--seed", &self.seed.to_string()])
            // Not on the command line, where everybody could read the password.
            .env("DATABASE_URL", self.place.url_for(&name))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let last_words = Arc::new(Mutex::new(VecDeque::new()));
        if let Some(errors) = child.stderr.take() {
            tokio::spawn(listen(errors, Arc::clone(&last_words)));
        }
        let output = child.stdout.take();
        let mut worker = Worker { number, life, child, last_words };
        let ready = async {
            let mut lines = BufReader::new(output?).lines();
            lines.next_line().await.ok().flatten().filter(|line| line == READY)
        };
        match tokio::time::timeout(START_MAX, ready).await {
            Ok(Some(_)) => Ok(worker),
            Ok(None) => {
                let _ = tokio::time::timeout(STOP_MAX, worker.child.wait()).await;
                let words = worker.last_words();
                Err(Failure::new(format!("worker {number} did not start: {words}")))
            }
            Err(_) => {
                let limit = START_MAX.as_secs();
                Err(Failure::new(format!("worker {number} was not ready within {limit} s")))
            }
        }
    }

    /// The number, session name and process id of each worker.
    pub(super) fn roll(&self) -> Vec<(usize, String, u32)> {
        self.workers.iter().map(|worker| (worker.number, worker.name(), worker.pid())).collect()
    }

    /// Kills a worker by SIGKILL and returns when its process is gone.
    pub(super) async fn kill(&mut self, index: usize) -> Result<(), Failure> {
        Ok(self.workers[index].child.kill().await?)
    }

    /// Puts a new process in the place of a worker that is gone.
    pub(super) async fn replace(&mut self, index: usize) -> Result<(), Failure> {
        let (number, life) = (self.workers[index].number, self.workers[index].life + 1);
        let worker = self.spawn(number, life).await?;
        self.view.tell(&format!("Worker {number} is back (pid {}).", worker.pid()));
        self.workers[index] = worker;
        Ok(())
    }

    /// Looks for workers that ended though nobody told them to, and replaces them.
    pub(super) async fn check(&mut self) -> Result<(), Failure> {
        for index in 0..self.workers.len() {
            let worker = &mut self.workers[index];
            let pid = worker.pid();
            let Some(status) = worker.child.try_wait()? else { continue };
            let number = worker.number;
            let words = worker.last_words();
            let report = format!(
                "Worker {number} (pid {pid}) ended unexpectedly ({}). Its last words:\n{}",
                ending(status),
                if words.is_empty() { "(none)" } else { &words }
            );
            self.deaths += 1;
            if self.deaths > DEATHS_MAX {
                return Err(Failure::new(report).while_doing("too many workers died"));
            }
            self.view.tell(&report);
            self.replace(index).await?;
        }
        Ok(())
    }

    /// Ends all workers in order: the end of their input tells them.
    pub(super) async fn stop(mut self) {
        for worker in &mut self.workers {
            drop(worker.child.stdin.take());
        }
        for worker in &mut self.workers {
            if tokio::time::timeout(STOP_MAX, worker.child.wait()).await.is_err() {
                self.view.tell(&format!("Worker {} does not stop; it is killed.", worker.number));
                let _ = worker.child.kill().await;
            }
        }
    }
}

/// How a process ended, for a person.
fn ending(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt as _;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "unknown".into(),
    }
}

/// Keeps the last lines that a worker writes.
async fn listen(errors: tokio::process::ChildStderr, words: Arc<Mutex<VecDeque<String>>>) {
    let mut lines = BufReader::new(errors).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let mut words = words.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if words.len() == WORDS_MAX {
            words.pop_front();
        }
        words.push_back(line);
    }
}
