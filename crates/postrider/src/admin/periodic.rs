//! Periodic jobs: declare, look at, pause, resume, run now, delete.
//!
//! How it fails: [`ErrorKind::NotFound`] for a name that nobody has, [`ErrorKind::UndeclaredKind`]
//! for a kind that is not declared. Invariant: ticks that pass while one is paused get no job.

use serde::Serialize;
use serde_json::value::RawValue;
use time::OffsetDateTime;

use super::Admin;
use crate::periodic::schedule::Schedule;
use crate::store::Store;
use crate::{CatchUp, Error, ErrorKind, JobState, Periodic};

/// A periodic job and how it does.
#[derive(Debug, Clone, Serialize)]
pub struct PeriodicInfo {
    /// The name.
    pub name: String,
    /// The kind of its jobs.
    pub kind: String,
    /// Whether that is declared; if not, its ticks pass.
    pub kind_is_known: bool,
    /// The cron expression.
    pub cron: String,
    /// The time zone.
    pub time_zone: String,
    /// The arguments of its jobs.
    pub arguments: Box<RawValue>,
    /// 1 goes first, 4 last; `None` for what the kind says.
    pub priority: Option<i16>,
    /// What becomes of ticks that nobody was there for.
    pub catch_up: CatchUp,
    /// The most ticks that are caught up at once.
    pub catch_up_max: i32,
    /// The version of its declaration.
    pub version: i32,
    /// Since when it is paused, if it is.
    #[serde(with = "time::serde::rfc3339::option")]
    pub paused_at: Option<OffsetDateTime>,
    /// The next tick; `None` when its schedule has no further one.
    #[serde(with = "time::serde::rfc3339::option")]
    pub next_due_at: Option<OffsetDateTime>,
    /// The last tick that got a job.
    #[serde(with = "time::serde::rfc3339::option")]
    pub last_tick_at: Option<OffsetDateTime>,
    /// The last job, by a tick or by hand.
    pub last_job_id: Option<i64>,
    /// Where that job stands; kept when its history is forgotten.
    pub last_state: Option<JobState>,
    /// When it ended.
    #[serde(with = "time::serde::rfc3339::option")]
    pub last_finished_at: Option<OffsetDateTime>,
    /// Why its last failed attempt failed, or why the last tick got no job.
    pub last_error: Option<String>,
}

/// What declaring a periodic job came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "result", content = "stands_at")]
pub enum PeriodicDeclared {
    /// It is new, or changed.
    Declared,
    /// It was declared like this.
    Unchanged,
    /// A higher version stands, which is given; nothing was changed.
    NewerStands(i32),
}

/// What running a periodic job by hand came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "result", content = "job_id")]
pub enum PeriodicRun {
    /// A job was enqueued.
    Enqueued(i64),
    /// Its kind is deleted.
    KindGone,
    /// There is no such periodic job.
    NotFound,
}

/// Declares one; its kind must be declared.
pub(crate) async fn declare(store: &Store, new: &Periodic) -> Result<PeriodicDeclared, Error> {
    new.check()?;
    let schedule = Schedule::parse(&new.cron, &new.time_zone)?;
    let next = schedule.next_after(store.now().await?);
    if next.is_none() {
        let message = format!("cron: `{}` has no tick to come", new.cron);
        return Err(Error::new(ErrorKind::Invalid, message).with_field("cron"));
    }
    let put = store.put_periodic(new, next).await?;
    Ok(match put.stood_at {
        _ if put.changed => PeriodicDeclared::Declared,
        Some(version) if version > new.version => PeriodicDeclared::NewerStands(version),
        _ if !put.kind_is_known => {
            let message = format!("kind: {} is not declared", new.kind);
            return Err(Error::new(ErrorKind::UndeclaredKind, message).with_field("kind").with_hint(
                "the programs that handle a kind declare it, and so does: postrider jobs declare",
            ));
        }
        _ => PeriodicDeclared::Unchanged,
    })
}

impl Admin {
    /// Declares a periodic job. The ticks from now on get their jobs; a schedule that did not
    /// change keeps its next tick.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for what cannot be read or has no tick to come,
    /// [`ErrorKind::UndeclaredKind`] when its kind is not declared.
    pub async fn declare_periodic(&self, new: &Periodic) -> Result<PeriodicDeclared, Error> {
        declare(&self.store, new).await
    }

    /// The periodic jobs, by name.
    ///
    /// # Errors
    /// [`ErrorKind::Database`] or [`ErrorKind::Unreachable`].
    pub async fn periodic_jobs(&self) -> Result<Vec<PeriodicInfo>, Error> {
        self.store.periodic(None).await
    }

    /// The periodic job of this name, if there is one.
    ///
    /// # Errors
    /// [`ErrorKind::Database`] or [`ErrorKind::Unreachable`].
    pub async fn periodic_job(&self, name: &str) -> Result<Option<PeriodicInfo>, Error> {
        Ok(self.store.periodic(Some(name)).await?.pop())
    }

    /// Pauses one: its ticks pass until it is resumed. Pausing twice changes nothing.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] when there is none of this name.
    pub async fn pause_periodic(&self, name: &str) -> Result<(), Error> {
        found(self.store.pause_periodic(name).await?, name)
    }

    /// Lets a paused one go on with the next tick from now.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] when there is none of this name.
    pub async fn resume_periodic(&self, name: &str) -> Result<(), Error> {
        let Some(known) = self.periodic_job(name).await? else { return found(false, name) };
        let next = Schedule::parse(&known.cron, &known.time_zone)?;
        let next = next.next_after(self.store.now().await?);
        found(self.store.resume_periodic(name, next).await?, name)
    }

    /// Enqueues a job of it now, beside its ticks, also while it is paused.
    ///
    /// # Errors
    /// [`ErrorKind::Database`] or [`ErrorKind::Unreachable`].
    pub async fn run_periodic(&self, name: &str) -> Result<PeriodicRun, Error> {
        Ok(match self.store.run_periodic(name).await? {
            None => PeriodicRun::NotFound,
            Some(None) => PeriodicRun::KindGone,
            Some(Some(job_id)) => {
                self.store.ring("due").await?;
                PeriodicRun::Enqueued(job_id)
            }
        })
    }

    /// Deletes one. The jobs that it enqueued stay.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] when there is none of this name.
    pub async fn delete_periodic(&self, name: &str) -> Result<(), Error> {
        found(self.store.delete_periodic(name).await?, name)
    }
}

fn found(found: bool, name: &str) -> Result<(), Error> {
    if found {
        return Ok(());
    }
    Err(Error::new(ErrorKind::NotFound, format!("there is no periodic job `{name}`"))
        .with_hint("see: postrider periodic list"))
}
