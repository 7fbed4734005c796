//! Runs SQL scripts as a load: the same driver, the same way, for both sides of a comparison.
//!
//! How it fails: with the server's error and the statement. Invariant: `begin` and `commit` are
//! sent as they are, everything else as prepared statements, as `pgbench -M prepared` does.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use postrider::Database;
use tokio_postgres::{Client, Statement};

use super::BenchError;

/// A script of statements.
#[derive(Debug, Clone)]
pub(crate) struct Script {
    statements: Vec<String>,
}

impl Script {
    /// Splits a script, puts the values in, and drops comments.
    pub(crate) fn new(text: &str, schema: &str, values: &[(&str, i64)]) -> Self {
        let code: Vec<&str> =
            text.lines().filter(|line| !line.trim_start().starts_with("--")).collect();
        let mut code = code.join("\n").replace("{schema}", schema);
        for (name, value) in values {
            code = code.replace(&format!(":{name}"), &value.to_string());
        }
        let statements = split(&code);
        Self { statements }
    }

    /// Runs every statement once, each as it is.
    pub(crate) async fn run_once(&self, client: &Client) -> Result<(), BenchError> {
        for statement in &self.statements {
            client.batch_execute(statement).await?;
        }
        Ok(())
    }

    /// Prepares the script on a connection.
    pub(crate) async fn prepare<'a>(
        &'a self,
        client: &'a Client,
    ) -> Result<Prepared<'a>, BenchError> {
        let mut steps = Vec::new();
        for statement in &self.statements {
            let plain = matches!(statement.as_str(), "begin" | "commit")
                || statement.starts_with("create temp");
            steps.push(match plain {
                true => Step::Plain(statement),
                false => Step::Prepared(client.prepare(statement).await?),
            });
        }
        Ok(Prepared { client, steps })
    }
}

/// Splits at semicolons, but not inside the body of a function.
fn split(code: &str) -> Vec<String> {
    let mut statements = vec![String::new()];
    for (number, part) in code.split("$$").enumerate() {
        if number % 2 == 1 {
            let last = statements.last_mut().expect("there is always one");
            last.push_str(&format!("$${part}$$"));
            continue;
        }
        for (place, piece) in part.split(';').enumerate() {
            match statements.last_mut() {
                Some(last) if place == 0 => last.push_str(piece),
                _ => statements.push(piece.to_owned()),
            }
        }
    }
    statements.retain(|statement| !statement.trim().is_empty());
    statements.iter().map(|statement| statement.trim().to_owned()).collect()
}

enum Step<'a> {
    Plain(&'a str),
    Prepared(Statement),
}

/// A script on one connection.
pub(crate) struct Prepared<'a> {
    client: &'a Client,
    steps: Vec<Step<'a>>,
}

impl Prepared<'_> {
    /// Runs it once.
    pub(crate) async fn run(&self) -> Result<(), BenchError> {
        for step in &self.steps {
            match step {
                Step::Plain(text) => self.client.batch_execute(text).await?,
                Step::Prepared(statement) => {
                    self.client.query(statement, &[]).await?;
                }
            }
        }
        Ok(())
    }
}

/// Runs `script` on `connections` connections for `time`; returns how often each second.
pub(crate) async fn rate(
    database: &Database,
    script: &Script,
    connections: usize,
    time: Duration,
) -> Result<f64, BenchError> {
    let mut clients = Vec::new();
    for _ in 0..connections {
        clients.push(database.connect().await?);
    }
    let started = Instant::now();
    let tasks: Vec<_> = clients
        .into_iter()
        .map(|client| {
            let script = script.clone();
            tokio::spawn(async move {
                let prepared = script.prepare(&client).await?;
                let mut count = 0_u32;
                while started.elapsed() < time {
                    prepared.run().await?;
                    count += 1;
                }
                Ok::<u32, BenchError>(count)
            })
        })
        .collect();
    let mut total = 0_u32;
    for task in tasks {
        total += task.await.map_err(|_| BenchError::new("a load generator panicked"))??;
    }
    Ok(f64::from(total) / started.elapsed().as_secs_f64())
}

/// Runs a hand-written fan-out over and over until `stop` turns true, with a short rest whenever it
/// found nothing: the relay beside hand-written writes.
pub(crate) async fn relay(
    database: &Database,
    script: &Script,
    stop: Arc<AtomicBool>,
) -> Result<tokio::task::JoinHandle<Result<(), BenchError>>, BenchError> {
    let (client, script) = (database.connect().await?, script.clone());
    Ok(tokio::spawn(async move {
        let statement = client.prepare(&script.statements.join(";")).await?;
        while !stop.load(Ordering::Relaxed) {
            if client.execute(&statement, &[]).await? == 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
        Ok(())
    }))
}

/// Runs `script` `times` times on one connection; returns how often each second.
pub(crate) async fn rate_of(
    database: &Database,
    script: &Script,
    connections: u32,
    times: u32,
) -> Result<f64, BenchError> {
    let mut tasks = Vec::new();
    let started = Instant::now();
    for _ in 0..connections {
        let (client, script) = (database.connect().await?, script.clone());
        tasks.push(tokio::spawn(async move {
            // A script that makes its own temporary table can only be prepared after that.
            if let Some(first) = script.statements.iter().find(|one| one.starts_with("create temp"))
            {
                client.batch_execute(first).await?;
            }
            let prepared = script.prepare(&client).await?;
            for _ in 0..times / connections {
                prepared.run().await?;
            }
            Ok::<(), BenchError>(())
        }));
    }
    for task in tasks {
        task.await.map_err(|_| BenchError::new("a load generator panicked"))??;
    }
    Ok(f64::from(times) / started.elapsed().as_secs_f64())
}
