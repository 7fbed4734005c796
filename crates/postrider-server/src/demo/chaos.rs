//! Chaos: kills workers with SIGKILL while jobs are running in them, and watches the rescue.
//!
//! How it fails: an error of the database or a worker that does not come back ends the demo.
//! Invariant: what counts as running at a kill was read after the worker's process and its last
//! connection were gone, when nothing of it could settle any more, and before its lease ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;
use tokio_postgres::{Client, Statement};
use uuid::Uuid;

use super::crew::Crew;
use super::failure::Failure;
use super::place::Place;
use super::progress::Progress;
use super::view::View;
use super::worker::LEASE;

/// How often something that has no wake-up of its own is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// How many running jobs a kill waits for, and how long before it makes do with less.
const WORTH_A_KILL: [(usize, Duration); 3] =
    [(10, Duration::from_secs(1)), (4, Duration::from_secs(3)), (1, Duration::MAX)];
/// How long the connections of a killed process may take to go.
const GONE_WITHIN: Duration = Duration::from_secs(2);
/// How long to watch a rescue: the lease, the rescuer's turn, and patience with a busy machine.
const RESCUE_WITHIN: Duration = Duration::from_secs(20);
/// A kill that hit a worker between two jobs is tried again, this often.
const MISSES_MAX: u32 = 5;

/// What happened so far, for the view.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Workers killed.
    pub(super) kills: AtomicU64,
    /// Jobs that were running in them when they died.
    pub(super) running_at_kill: AtomicU64,
    /// Those that were taken back.
    pub(super) rescued: AtomicU64,
}

/// Everything a kill needs.
pub(super) struct Chaos {
    pub(super) place: Arc<Place>,
    pub(super) progress: Arc<Progress>,
    pub(super) crew: Arc<Mutex<Crew>>,
    pub(super) tally: Arc<Tally>,
    pub(super) view: View,
    /// At which shares of the recorded events, in percent, a worker is killed.
    pub(super) at_percent: &'static [i64],
}

/// The jobs of a dead worker.
struct Held {
    /// When the process was gone, roughly: before the jobs were looked up.
    at: Instant,
    session: Uuid,
    jobs: Vec<i64>,
}

impl Chaos {
    /// Kills as often as planned, or until there is nothing left to do.
    pub(super) async fn run(self) -> Result<(), Failure> {
        let client = self.place.database("chaos")?.connect().await?;
        // Worker 2 goes first, then 1: both have been the victim and the rescuer.
        let mut victim = 1;
        let mut misses = 0;
        for percent in self.at_percent {
            let threshold = self.progress.wanted * percent / 100;
            while self.progress.recorded() < threshold {
                tokio::time::sleep(LOOK_EVERY).await;
            }
            while let Some(held) = self.strike(&client, victim).await? {
                if held.jobs.is_empty() && misses < MISSES_MAX {
                    misses += 1;
                    continue;
                }
                self.watch_rescue(&client, victim + 1, &held).await?;
                break;
            }
            victim = 1 - victim;
        }
        Ok(())
    }

    /// Kills the worker at `index` when jobs are running in it. `None`: the work was over before.
    async fn strike(&self, client: &Client, index: usize) -> Result<Option<Held>, Failure> {
        let statement = client.prepare(include_str!("sql/held_jobs.sql")).await?;
        let started = Instant::now();
        while !self.progress.is_idle() {
            // Held from the look to the end, so that nobody replaces the worker in between.
            let mut crew = self.crew.lock().await;
            let (number, name, pid) = crew.roll().swap_remove(index);
            let running = held_jobs(client, &statement, &name).await?.jobs.len();
            if running >= worth_a_kill(started.elapsed()) {
                crew.kill(index).await?;
                self.await_gone(client, &name).await?;
                let held = held_jobs(client, &statement, &name).await?;
                self.note(client, number, pid, &held).await?;
                crew.replace(index).await?;
                return Ok(Some(held));
            }
            drop(crew);
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(None)
    }

    /// Waits until the server has ended the connections of a process: a statement that it had sent
    /// is carried out even after its death.
    async fn await_gone(&self, client: &Client, name: &str) -> Result<(), Failure> {
        let deadline = Instant::now() + GONE_WITHIN;
        let application = self.place.application(name);
        while Instant::now() < deadline {
            let row = client.query_one(include_str!("sql/backends.sql"), &[&application]).await?;
            if row.try_get::<_, i64>(0)? == 0 {
                break;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(())
    }

    async fn note(
        &self,
        client: &Client,
        number: usize,
        pid: u32,
        held: &Held,
    ) -> Result<(), Failure> {
        let jobs = held.jobs.len();
        let statement = include_str!("sql/kill_insert.sql");
        client.execute(statement, &[&number.to_string(), &held.session, &held.jobs]).await?;
        self.tally.kills.fetch_add(1, Ordering::AcqRel);
        self.tally.running_at_kill.fetch_add(jobs as u64, Ordering::AcqRel);
        self.view.tell(&match jobs {
            0 => format!("Worker {number} (pid {pid}) was killed between two jobs."),
            _ => format!(
                "Worker {number} (pid {pid}) was killed (SIGKILL) with {} running. Its lease ends \
                 in at most {} s; then others may have them.",
                super::view::counted(jobs, "job"),
                LEASE.as_secs()
            ),
        });
        Ok(())
    }

    /// Watches until the jobs of a dead worker were taken back.
    async fn watch_rescue(
        &self,
        client: &Client,
        number: usize,
        held: &Held,
    ) -> Result<(), Failure> {
        if held.jobs.is_empty() {
            return Ok(());
        }
        let statement = client.prepare(include_str!("sql/rescued.sql")).await?;
        let mut rescued = 0;
        while held.at.elapsed() < RESCUE_WITHIN {
            let row = client.query_one(&statement, &[&held.jobs, &held.session]).await?;
            let found = usize::try_from(row.try_get::<_, i64>(0)?).unwrap_or(0);
            self.tally.rescued.fetch_add((found - rescued) as u64, Ordering::AcqRel);
            rescued = found;
            if rescued == held.jobs.len() {
                break;
            }
            tokio::time::sleep(LOOK_EVERY * 5).await;
        }
        let seconds = held.at.elapsed().as_secs_f64();
        let all = held.jobs.len();
        self.view.tell(&match rescued == all {
            true => format!(
                "{seconds:.1} s after its death {} of worker {number} can run again.",
                match all {
                    1 => "the one job".into(),
                    _ => format!("all {all} jobs"),
                }
            ),
            false => format!(
                "{seconds:.1} s after its death only {rescued} of {all} jobs of worker {number} \
                 can run \
                 again."
            ),
        });
        Ok(())
    }
}

/// How many jobs must be running after having waited so long.
fn worth_a_kill(waited: Duration) -> usize {
    WORTH_A_KILL.iter().find(|(_, within)| waited < *within).map_or(1, |(jobs, _)| *jobs)
}

async fn held_jobs(client: &Client, statement: &Statement, name: &str) -> Result<Held, Failure> {
    let at = Instant::now();
    let row = client.query_opt(statement, &[&name]).await?;
    match row {
        Some(row) => Ok(Held { at, session: row.try_get(0)?, jobs: row.try_get(1)? }),
        None => Err(Failure::new(format!("the session of {name} is not there"))),
    }
}
