//! Runs the binary: to its end, or in the background with its lines at hand.

use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use postrider::{Database, Schema, migrate};
use postrider_testkit::{TestDatabase, wait_until};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, Command};

/// How long a test waits for what should come within moments on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A database of its own, and the binary pointed at it.
pub(crate) struct Program {
    pub(crate) db: TestDatabase,
    pub(crate) client: tokio_postgres::Client,
}

/// How a run ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ended {
    /// The JSON document on standard output.
    #[track_caller]
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Asserts the exit code and gives the run on.
    #[track_caller]
    pub(crate) fn code(self, expected: i32) -> Self {
        assert_eq!(self.code, expected, "{self:?}");
        self
    }

    /// Asserts that standard output holds `words`.
    #[track_caller]
    pub(crate) fn says(self, words: &str) -> Self {
        assert!(self.out.contains(words), "no {words:?} on standard output: {self:?}");
        self
    }

    /// Asserts that standard error holds `words`.
    #[track_caller]
    pub(crate) fn complains(self, words: &str) -> Self {
        assert!(self.err.contains(words), "no {words:?} on standard error: {self:?}");
        self
    }
}

impl Program {
    /// On a database with a current schema.
    pub(crate) async fn migrated() -> Self {
        let key = format!("postrider {}", migrate::print(&Schema::default()));
        let db = TestDatabase::create_from_template(&key, async |url: String| {
            let mut client = Database::new(&url).unwrap().connect().await.unwrap();
            migrate::apply(&mut client, &Schema::default()).await.unwrap();
        })
        .await;
        let client = db.client().await;
        Self { db, client }
    }

    /// On an empty database.
    pub(crate) async fn empty() -> Self {
        let db = TestDatabase::create().await;
        let client = db.client().await;
        Self { db, client }
    }

    /// The binary with `arguments`, pointed at the database.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = command(arguments);
        command.env("DATABASE_URL", self.db.url());
        command
    }

    /// Runs to the end.
    pub(crate) async fn run(&self, arguments: &[&str]) -> Ended {
        end(self.command(arguments)).await
    }

    /// Runs to the end and expects exit code 0.
    #[track_caller]
    pub(crate) fn ok(&self, arguments: &[&str]) -> impl Future<Output = Ended> {
        let run = end(self.command(arguments));
        async move { run.await.code(0) }
    }

    /// Runs to the end with `input` on standard input.
    pub(crate) async fn feed(&self, arguments: &[&str], input: &str) -> Ended {
        let mut command = self.command(arguments);
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        // A run that fails early reads nothing more.
        let _ = stdin.write_all(input.as_bytes()).await;
        drop(stdin);
        ended(child.wait_with_output().await.unwrap())
    }

    /// Starts it in the background.
    pub(crate) fn start(&self, arguments: &[&str]) -> Running {
        Running::spawn(self.command(arguments))
    }

    /// The first column of the only row.
    pub(crate) async fn count(&self, sql: &str) -> i64 {
        self.client.query_one(sql, &[]).await.unwrap().get(0)
    }

    /// Waits until a count is as expected.
    pub(crate) async fn wait_for_count(&self, what: &str, sql: &str, expected: i64) {
        wait_until(what, PATIENCE, async || {
            let found = self.count(sql).await;
            (found == expected).then_some(()).ok_or(format!("{found} of {expected}"))
        })
        .await;
    }
}

/// The binary with `arguments` and nothing of this process's environment that could matter.
pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_postrider"));
    command
        .args(arguments)
        .env_remove("DATABASE_URL")
        .env_remove("POSTRIDER_SCHEMA")
        .env_remove("RUST_LOG")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

/// Runs a command to its end.
pub(crate) async fn end(mut command: Command) -> Ended {
    ended(command.output().await.unwrap())
}

/// How a run ended that was waited for.
pub(crate) fn ended(output: std::process::Output) -> Ended {
    Ended {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// A run in the background; it is killed when dropped.
pub(crate) struct Running {
    child: Child,
    out: Arc<Mutex<Vec<String>>>,
    err: Arc<Mutex<Vec<String>>>,
}

impl Running {
    pub(crate) fn spawn(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let out = lines(child.stdout.take().unwrap());
        let err = lines(child.stderr.take().unwrap());
        Self { child, out, err }
    }

    /// The lines on standard output so far.
    pub(crate) fn out(&self) -> Vec<String> {
        self.out.lock().unwrap().clone()
    }

    /// The lines on standard error so far.
    pub(crate) fn err(&self) -> Vec<String> {
        self.err.lock().unwrap().clone()
    }

    /// Waits for a line on standard output or standard error that holds `words`.
    pub(crate) async fn wait_for(&self, words: &str) -> String {
        wait_until(&format!("a line holds {words:?}"), PATIENCE, async || {
            let (out, err) = (self.out(), self.err());
            let found = out.iter().chain(&err).find(|line| line.contains(words)).cloned();
            found.ok_or(format!("out: {out:?}, err: {err:?}"))
        })
        .await
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id().unwrap()).unwrap();
        kill(Pid::from_raw(pid), signal).unwrap();
    }

    /// Waits for its end and gives the exit code.
    pub(crate) async fn exit_code(&mut self) -> i32 {
        let status = tokio::time::timeout(PATIENCE, self.child.wait()).await;
        let status = status.unwrap_or_else(|_| panic!("it does not end: {:?}", self.err()));
        status.unwrap().code().unwrap_or(-1)
    }
}

/// Collects lines in the background.
fn lines(from: impl AsyncRead + Unpin + Send + 'static) -> Arc<Mutex<Vec<String>>> {
    let kept: Arc<Mutex<Vec<String>>> = Arc::default();
    let lines = Arc::clone(&kept);
    tokio::spawn(async move {
        let mut from = BufReader::new(from).lines();
        while let Ok(Some(line)) = from.next_line().await {
            lines.lock().unwrap().push(line);
        }
    });
    kept
}
