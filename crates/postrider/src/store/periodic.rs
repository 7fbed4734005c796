//! What periodic jobs ask of the database.
//!
//! How it fails: the database's error. Invariant: the ticks of a schedule are enqueued in the
//! statement that moves its next tick on, so a tick gets one job or none, whoever is at work.

use serde_json::value::RawValue;
use time::OffsetDateTime;
use tokio_postgres::Row;
use tokio_postgres::types::Json;

use super::{Param, Store};
use crate::admin::PeriodicInfo;
use crate::periodic::schedule::Plan;
use crate::{Error, ErrorKind, JobState, Periodic};

/// A schedule whose next tick has come.
#[derive(Debug)]
pub(crate) struct DuePeriodic {
    pub(crate) id: i32,
    pub(crate) name: String,
    pub(crate) cron: String,
    pub(crate) time_zone: String,
    pub(crate) catch_up: String,
    pub(crate) catch_up_max: i32,
    pub(crate) next_due_at: OffsetDateTime,
    /// The database's time.
    pub(crate) now: OffsetDateTime,
}

/// What firing a schedule came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fired {
    /// Its ticks have their jobs, and the next tick is set.
    Enqueued,
    /// Its kind is deleted, so its ticks pass.
    NoKind,
    /// Another process was faster, or it is paused.
    Taken,
}

/// What declaring a periodic job found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Put {
    /// The version that stood before.
    pub(crate) stood_at: Option<i32>,
    pub(crate) kind_is_known: bool,
    pub(crate) changed: bool,
}

impl Store {
    /// The database's time, moved as tests want it.
    pub(crate) async fn now(&self) -> Result<OffsetDateTime, Error> {
        let rows = self.query(&self.statements.clock, &[&self.clock.shift()]).await?;
        one(&rows)?.try_get("now").map_err(Into::into)
    }

    /// Declares a periodic job whose next tick is `next` unless it has one of this schedule.
    pub(crate) async fn put_periodic(
        &self,
        new: &Periodic,
        next: Option<OffsetDateTime>,
    ) -> Result<Put, Error> {
        let priority = new.priority.map(postrider_core::Priority::number);
        let (arguments, catch_up) = (Json(&*new.arguments), new.catch_up.as_str());
        let params: &[Param<'_>] = &[
            &new.name,
            &new.kind,
            &new.cron,
            &new.time_zone,
            &arguments,
            &priority,
            &catch_up,
            &new.catch_up_max,
            &new.version,
            &next,
            &self.clock.shift(),
        ];
        let rows = self.query(&self.statements.periodic_put, params).await?;
        let row = one(&rows)?;
        Ok(Put {
            stood_at: row.try_get("stood_at")?,
            kind_is_known: row.try_get("kind_is_known")?,
            changed: row.try_get("changed")?,
        })
    }

    /// The schedules that are due, at most a hundred.
    pub(crate) async fn due_periodic(&self) -> Result<Vec<DuePeriodic>, Error> {
        let rows = self.query(&self.statements.periodic_due, &[&self.clock.shift()]).await?;
        let due = rows.iter().map(|row| {
            Ok(DuePeriodic {
                id: row.try_get("id")?,
                name: row.try_get("name")?,
                cron: row.try_get("cron")?,
                time_zone: row.try_get("time_zone")?,
                catch_up: row.try_get("catch_up")?,
                catch_up_max: row.try_get("catch_up_max")?,
                next_due_at: row.try_get("next_due_at")?,
                now: row.try_get("now")?,
            })
        });
        due.collect()
    }

    /// Enqueues the jobs of the planned ticks and sets the next one.
    pub(crate) async fn fire_periodic(
        &self,
        due: &DuePeriodic,
        plan: &Plan,
    ) -> Result<Fired, Error> {
        let params: &[Param<'_>] =
            &[&due.id, &due.next_due_at, &plan.ticks, &plan.next, &self.clock.shift()];
        let rows = self.query(&self.statements.periodic_fire, params).await?;
        Ok(match one(&rows)?.try_get("result")? {
            "fired" => Fired::Enqueued,
            "no_kind" => Fired::NoKind,
            _ => Fired::Taken,
        })
    }

    /// Keeps the results of last jobs.
    pub(crate) async fn note_periodic(&self) -> Result<(), Error> {
        self.query(&self.statements.periodic_note, &[]).await?;
        Ok(())
    }

    /// Enqueues a job beside the ticks. `None`: there is no such periodic job; `None` inside: its
    /// kind is deleted.
    pub(crate) async fn run_periodic(&self, name: &str) -> Result<Option<Option<i64>>, Error> {
        let params: &[Param<'_>] = &[&name, &self.clock.shift()];
        let rows = self.query(&self.statements.periodic_run, params).await?;
        let row = one(&rows)?;
        let is_known: bool = row.try_get("is_known")?;
        Ok(if is_known { Some(row.try_get("job_id")?) } else { None })
    }

    /// Pauses; returns whether there is one of this name.
    pub(crate) async fn pause_periodic(&self, name: &str) -> Result<bool, Error> {
        Ok(!self.query(&self.statements.periodic_pause, &[&name]).await?.is_empty())
    }

    /// Lets it go on with the tick `next`; returns whether there is one of this name.
    pub(crate) async fn resume_periodic(
        &self,
        name: &str,
        next: Option<OffsetDateTime>,
    ) -> Result<bool, Error> {
        let params: &[Param<'_>] = &[&name, &next];
        Ok(!self.query(&self.statements.periodic_resume, params).await?.is_empty())
    }

    /// Deletes; returns whether there was one of this name.
    pub(crate) async fn delete_periodic(&self, name: &str) -> Result<bool, Error> {
        Ok(!self.query(&self.statements.periodic_delete, &[&name]).await?.is_empty())
    }

    /// The periodic jobs, by name, or the one of a name.
    pub(crate) async fn periodic(&self, name: Option<&str>) -> Result<Vec<PeriodicInfo>, Error> {
        let rows = self.query(&self.statements.periodic_list, &[&name]).await?;
        rows.iter().map(info).collect()
    }
}

fn one(rows: &[Row]) -> Result<&Row, Error> {
    rows.first().ok_or_else(|| Error::new(ErrorKind::Bug, "a statement returned no row"))
}

fn info(row: &Row) -> Result<PeriodicInfo, Error> {
    let Json(arguments): Json<Box<RawValue>> = row.try_get("arguments")?;
    let state: Option<&str> = row.try_get("last_state")?;
    Ok(PeriodicInfo {
        name: row.try_get("name")?,
        kind: row.try_get("kind")?,
        kind_is_known: row.try_get("kind_is_known")?,
        cron: row.try_get("cron")?,
        time_zone: row.try_get("time_zone")?,
        arguments,
        priority: row.try_get("priority")?,
        catch_up: row.try_get::<_, &str>("catch_up")?.parse()?,
        catch_up_max: row.try_get("catch_up_max")?,
        version: row.try_get("version")?,
        paused_at: row.try_get("paused_at")?,
        next_due_at: row.try_get("next_due_at")?,
        last_tick_at: row.try_get("last_tick_at")?,
        last_job_id: row.try_get("last_job_id")?,
        last_state: state.and_then(|word| JobState::ALL.into_iter().find(|s| s.as_str() == word)),
        last_finished_at: row.try_get("last_finished_at")?,
        last_error: row.try_get("last_error")?,
    })
}
