//! What the tests share: the binary, its output, and counts.

use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use postrider_testkit::{TestDatabase, wait_until};
use serde_json::Value;
use tokio::process::{Child, Command};
use tokio_postgres::Client;

/// How long a test waits for what should come within moments on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// How the demo ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) output: String,
    pub(crate) errors: String,
}

impl Ended {
    /// The exit code.
    pub(crate) fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// The last line of standard output as JSON.
    pub(crate) fn json(&self) -> Value {
        let last = self.output.lines().last().unwrap_or_default();
        serde_json::from_str(last).unwrap_or_else(|error| panic!("{error} in {self:#?}"))
    }
}

/// The demo on a test's database, not started yet.
pub(crate) fn demo(database: &TestDatabase, arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_postrider"));
    command
        .arg("demo")
        .args(arguments.split_whitespace())
        .env("DATABASE_URL", database.url())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

/// Runs the demo to its end.
pub(crate) async fn ended(database: &TestDatabase, arguments: &str) -> Ended {
    end_of(demo(database, arguments).spawn().unwrap()).await
}

/// Waits for the end of a demo.
pub(crate) async fn end_of(child: Child) -> Ended {
    let output = child.wait_with_output().await.unwrap();
    Ended {
        status: output.status,
        output: String::from_utf8(output.stdout).unwrap(),
        errors: String::from_utf8(output.stderr).unwrap(),
    }
}

/// The first column of the only row.
pub(crate) async fn count(client: &Client, sql: &str) -> i64 {
    client.query_one(sql, &[]).await.unwrap_or_else(|error| panic!("{sql}: {error:?}")).get(0)
}

/// How many of the demo's schemas there are.
pub(crate) async fn schemas(client: &Client) -> i64 {
    count(client, "select count(*) from pg_namespace where nspname like 'postrider_demo%'").await
}

/// Waits until no process of the demo is connected to this database any more.
pub(crate) async fn all_gone(client: &Client) {
    let sql = "select count(*) from pg_stat_activity
      where datname = current_database() and application_name like 'postrider-demo-%'";
    wait_until("no process of the demo is left", PATIENCE, async || {
        match count(client, sql).await {
            0 => Ok(()),
            left => Err(format!("{left} connections are open")),
        }
    })
    .await;
}
