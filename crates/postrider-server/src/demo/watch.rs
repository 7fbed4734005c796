//! The watch: looks at the database again and again, shows what it sees, and says when all is done.
//!
//! How it fails: an error of the database, too many dead workers, or the deadline, which comes with
//! what is missing. Invariant: looking takes at most a tenth of the time, however much there is to
//! count, so that it does not slow what it looks at.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;
use tokio_postgres::{Client, Row};

use super::chaos::Tally;
use super::crew::Crew;
use super::failure::Failure;
use super::progress::Progress;
use super::scene::{CHART_MAX, Scene};
use super::view::{View, thousands};

/// The shortest time between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Over how much time a rate is taken.
const RATE_OVER: Duration = Duration::from_millis(900);

/// What there is to look at.
pub(super) struct Watch {
    pub(super) client: Client,
    pub(super) progress: Arc<Progress>,
    pub(super) crew: Arc<Mutex<Crew>>,
    pub(super) tally: Arc<Tally>,
    pub(super) view: View,
    pub(super) scene: Scene,
    pub(super) deadline: Instant,
}

/// Counts at a moment, to take rates from.
struct Mark {
    at: Instant,
    recorded: i64,
    handled: i64,
}

impl Watch {
    /// Shows the numbers until everything is recorded and handled.
    pub(super) async fn run(&mut self) -> Result<(), Failure> {
        let statement = self.client.prepare(include_str!("sql/sample.sql")).await?;
        let mut mark = Mark { at: Instant::now(), recorded: 0, handled: 0 };
        loop {
            let started = Instant::now();
            // Before the look: what was complete then has left its marks in what is seen.
            let complete = self.progress.is_complete();
            let row = self.client.query_one(&statement, &[]).await?;
            let open_fanouts = self.take(&row).await?;
            self.rates(&mut mark);
            self.view.draw(&self.scene);
            let unfinished = open_fanouts + self.scene.pending + self.scene.running;
            if complete && unfinished == 0 {
                return Ok(());
            }
            if Instant::now() >= self.deadline {
                return Err(Failure::new(self.missing(open_fanouts - self.scene.owed)));
            }
            if let Ok(mut crew) = self.crew.try_lock() {
                crew.check().await?;
            }
            tokio::time::sleep(LOOK_EVERY.max(started.elapsed() * 9)).await;
        }
    }

    /// Takes the counts over; returns how many events are still to be fanned out, failed ones too.
    async fn take(&mut self, row: &Row) -> Result<i64, Failure> {
        let (owed, failed): (i64, i64) = (row.try_get("owed")?, row.try_get("failed_fanouts")?);
        let jobs: i64 = row.try_get("jobs")?;
        let (names, running): (Vec<String>, Vec<i64>) =
            (row.try_get("sessions")?, row.try_get("running")?);
        let roll = match self.crew.try_lock() {
            Ok(crew) => crew.roll(),
            // Somebody is replacing a worker.
            Err(_) => Vec::new(),
        };
        let scene = &mut self.scene;
        scene.seconds = self.progress.elapsed().as_secs_f64();
        scene.recorded = self.progress.recorded();
        scene.owed = owed;
        scene.fanned_out = (scene.recorded - owed - failed).max(0);
        scene.running = running.iter().sum();
        scene.pending = (jobs - scene.running).max(0);
        scene.handled = row.try_get("handled")?;
        scene.retries = row.try_get("retries")?;
        scene.kills = self.tally.kills.load(Ordering::Acquire);
        scene.running_at_kill = self.tally.running_at_kill.load(Ordering::Acquire);
        scene.rescued = self.tally.rescued.load(Ordering::Acquire);
        let running_in = |name: &String| {
            names
                .iter()
                .position(|found| found == name)
                .and_then(|place| running.get(place))
                .copied()
        };
        if !roll.is_empty() {
            scene.workers =
                roll.iter().map(|(number, name, pid)| (*number, *pid, running_in(name))).collect();
        }
        Ok(owed + failed)
    }

    fn rates(&mut self, mark: &mut Mark) {
        let passed = mark.at.elapsed();
        if passed < RATE_OVER {
            return;
        }
        let per_second = |now: i64, then: i64| (now - then).max(0) as f64 / passed.as_secs_f64();
        let scene = &mut self.scene;
        scene.rate = per_second(scene.recorded, mark.recorded);
        scene.handled_rates.push(per_second(scene.handled, mark.handled));
        if scene.handled_rates.len() > CHART_MAX {
            scene.handled_rates.remove(0);
        }
        *mark = Mark { at: Instant::now(), recorded: scene.recorded, handled: scene.handled };
    }

    /// What is not done at the deadline.
    fn missing(&self, failed: i64) -> String {
        let scene = &self.scene;
        format!(
            "out of time after {:.0} s: {} of {} events are recorded, {} wait for their fan-out, \
             {} failed theirs, {} jobs are pending and {} running",
            scene.seconds,
            thousands(scene.recorded),
            thousands(scene.wanted),
            thousands(scene.owed),
            thousands(failed),
            thousands(scene.pending),
            thousands(scene.running)
        )
    }
}
