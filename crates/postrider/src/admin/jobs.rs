//! Jobs: list, look at, retry, cancel.
//!
//! How it fails: decisions answer with a word, also for a job that is not there. Invariants: a job
//! keeps its id through every retry; a retried job has at least one attempt left; no job appears
//! for an event whose row is gone.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;
use serde_json::value::RawValue;
use time::OffsetDateTime;
use uuid::Uuid;

use super::{Admin, EventRef, Page, check_limit};
use crate::store::FoundJob;
use crate::{Error, Event, Invalid, JobState};

/// Where a job stands, as people see it: a pending job with a due time in the future is scheduled
/// or, after a failed attempt, retryable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum JobView {
    /// Waits for a worker and is due.
    Pending,
    /// Waits for its first attempt at a time in the future.
    Scheduled,
    /// Failed and waits for its next attempt.
    Retryable,
    /// A worker has it.
    Running,
    /// Done.
    Completed,
    /// Given up.
    Discarded,
    /// Called off.
    Cancelled,
}

impl JobView {
    /// Every one of them.
    pub const ALL: [Self; 7] = [
        Self::Pending,
        Self::Scheduled,
        Self::Retryable,
        Self::Running,
        Self::Completed,
        Self::Discarded,
        Self::Cancelled,
    ];

    /// The word used in JSON and on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Scheduled => "scheduled",
            Self::Retryable => "retryable",
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Discarded => "discarded",
            Self::Cancelled => "cancelled",
        }
    }

    /// The state that is stored.
    #[must_use]
    pub fn stored(self) -> JobState {
        match self {
            Self::Pending | Self::Scheduled | Self::Retryable => JobState::Pending,
            Self::Running => JobState::Running,
            Self::Completed => JobState::Completed,
            Self::Discarded => JobState::Discarded,
            Self::Cancelled => JobState::Cancelled,
        }
    }
}

impl fmt::Display for JobView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for JobView {
    type Err = Invalid;

    fn from_str(word: &str) -> Result<Self, Invalid> {
        Self::ALL.into_iter().find(|view| view.as_str() == word).ok_or_else(|| {
            let known = Self::ALL.map(Self::as_str).join(", ");
            Invalid::new("state", format!("`{word}` is none of {known}"))
        })
    }
}

/// Which jobs to list. Everything that is `None` is not asked for.
#[derive(Debug, Clone)]
pub struct JobFilter {
    /// Where they stand.
    pub state: Option<JobView>,
    /// The name of their subscription, deleted ones of that name included.
    pub subscription: Option<String>,
    /// The queue of their subscription.
    pub queue: Option<String>,
    /// The owner of their events.
    pub tenant: Option<String>,
    /// Only those below this id: [`Page::next`] of the page before.
    pub before: Option<i64>,
    /// How many at most, 1 to [`super::PAGE_MAX`]. Defaults to 50.
    pub limit: i64,
}

impl Default for JobFilter {
    fn default() -> Self {
        Self { state: None, subscription: None, queue: None, tenant: None, before: None, limit: 50 }
    }
}

/// A job in a list.
#[derive(Debug, Clone, Serialize)]
pub struct JobSummary {
    /// The id.
    pub id: i64,
    /// Where it stands.
    pub state: JobView,
    /// The name of its subscription.
    pub subscription: String,
    /// Whether that is deleted.
    pub subscription_deleted: bool,
    /// The queue.
    pub queue: String,
    /// Why it exists: `fanout`, `replay`, `redeliver`, `test`, `enqueue`.
    pub origin: String,
    /// The owner of its event.
    pub tenant: String,
    /// 1 goes first, 4 last.
    pub priority: i16,
    /// How many attempts were started.
    pub attempt: i32,
    /// How many there may be.
    pub attempts_max: i32,
    /// When it was made.
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
    /// From when on it may run, while it is not finished.
    #[serde(with = "time::serde::rfc3339::option")]
    pub due_at: Option<OffsetDateTime>,
    /// When its last attempt started.
    #[serde(with = "time::serde::rfc3339::option")]
    pub started_at: Option<OffsetDateTime>,
    /// When it was finished.
    #[serde(with = "time::serde::rfc3339::option")]
    pub finished_at: Option<OffsetDateTime>,
    /// When it was asked to stop, while it runs on.
    #[serde(with = "time::serde::rfc3339::option")]
    pub cancel_requested_at: Option<OffsetDateTime>,
    /// The process that runs it or ran it last.
    pub worker: Option<String>,
    /// Its event's place in the order of recording.
    pub event_seq: Option<i64>,
    /// Its event's id; `None` when the event is over its retention.
    pub event_id: Option<Uuid>,
    /// Its event's type.
    pub event_type: Option<String>,
    /// What its event is about.
    pub subject: Option<String>,
    /// Why its last failed attempt failed.
    pub last_error: Option<String>,
}

/// Everything about one job.
#[derive(Debug, Clone, Serialize)]
pub struct JobDetail {
    /// What a list shows.
    #[serde(flatten)]
    pub summary: JobSummary,
    /// What it was enqueued with; `None` for a delivery.
    pub arguments: Option<Box<RawValue>>,
    /// What it is about, for an enqueued job that says so.
    pub key: Option<String>,
    /// The tick of the periodic job that enqueued it.
    #[serde(with = "time::serde::rfc3339::option")]
    pub tick_at: Option<OffsetDateTime>,
    /// What its handler left, once it is completed.
    pub output: Option<Box<RawValue>>,
    /// The attempts in order, the newest 1,000 at most; the last one runs or completed the job, or
    /// failed like the others.
    pub attempts: Vec<JobAttempt>,
    /// Its event; `None` when that is over its retention.
    pub event: Option<Event>,
}

/// One attempt of a job.
#[derive(Debug, Clone, Serialize)]
pub struct JobAttempt {
    /// Its number, 1 for the first. A snooze and a stop use no number up.
    pub attempt: i32,
    /// When it started.
    #[serde(with = "time::serde::rfc3339::option")]
    pub started_at: Option<OffsetDateTime>,
    /// When it ended.
    #[serde(with = "time::serde::rfc3339::option")]
    pub finished_at: Option<OffsetDateTime>,
    /// The process that ran it.
    pub worker: Option<String>,
    /// `running`, `completed`, `retry`, `snoozed`, `discarded`, `cancelled`, `released` or `lost`.
    pub outcome: String,
    /// What went wrong.
    pub error: Option<String>,
}

/// What retrying a job came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "result", content = "state")]
pub enum Retried {
    /// It was waiting for a time in the future, and is due now.
    DueNow,
    /// It was due already.
    WasDue,
    /// It was finished without success, and is pending again.
    Revived,
    /// It is running or completed.
    Conflict(JobState),
    /// Its event is over its retention, so there is nothing to run it with.
    EventGone,
    /// Its subscription is deleted, so nobody would run it.
    SubscriptionDeleted,
    /// There is no such job.
    NotFound,
}

/// What cancelling a job came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "result", content = "state")]
pub enum Cancelled {
    /// It was waiting, and never runs.
    Cancelled,
    /// It is running, and its worker was asked to stop it; that takes up to a third of a lease
    /// (5 seconds unless set otherwise).
    AskedToStop,
    /// It is finished already.
    AlreadyFinished(JobState),
    /// There is no such job.
    NotFound,
}

impl Admin {
    /// A page of jobs, newest first.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Invalid`] for a limit out of range.
    pub async fn jobs(&self, filter: &JobFilter) -> Result<Page<JobSummary>, Error> {
        check_limit(filter.limit)?;
        let items = self.store.jobs(filter).await?;
        Ok(Page::new(items, filter.limit, |job| job.id))
    }

    /// Everything about one job, or `None` when there is no such job.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Database`] or [`crate::ErrorKind::Unreachable`].
    pub async fn job(&self, id: i64) -> Result<Option<JobDetail>, Error> {
        let Some(found) = self.store.find_job(id).await? else { return Ok(None) };
        let FoundJob { summary, output, arguments, key, tick_at } = found;
        let mut attempts = self.store.job_attempts(id).await?;
        attempts.extend(last_attempt(&summary));
        let event = match summary.event_seq {
            Some(seq) => match self.store.find_event(EventRef::Seq(seq)).await? {
                Some(found) => self.store.read_event(&found).await?,
                None => None,
            },
            None => None,
        };
        Ok(Some(JobDetail { summary, arguments, key, tick_at, output, attempts, event }))
    }

    /// Makes a waiting job due now, or brings a discarded or cancelled one back with at least one
    /// attempt left.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Database`] or [`crate::ErrorKind::Unreachable`].
    pub async fn retry_job(&self, id: i64) -> Result<Retried, Error> {
        if let Some(was_due) = self.store.hurry_job(id).await? {
            return Ok(if was_due { Retried::WasDue } else { Retried::DueNow });
        }
        if self.store.revive_job(id).await? {
            return Ok(Retried::Revived);
        }
        let Some(found) = self.store.find_job(id).await? else { return Ok(Retried::NotFound) };
        let job = found.summary;
        Ok(match job.state.stored() {
            JobState::Discarded | JobState::Cancelled if job.subscription_deleted => {
                Retried::SubscriptionDeleted
            }
            JobState::Discarded | JobState::Cancelled => Retried::EventGone,
            // It has become so since the first look: somebody else retried it.
            JobState::Pending => Retried::WasDue,
            state @ (JobState::Running | JobState::Completed) => Retried::Conflict(state),
        })
    }

    /// Calls a job off: a waiting one at once, a running one by asking its worker.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Database`] or [`crate::ErrorKind::Unreachable`].
    pub async fn cancel_job(&self, id: i64) -> Result<Cancelled, Error> {
        match self.store.cancel_job(id, "cancelled by a person").await? {
            Some(JobState::Pending) => return Ok(Cancelled::Cancelled),
            Some(_) => return Ok(Cancelled::AskedToStop),
            None => {}
        }
        let found = self.store.find_job(id).await?;
        Ok(found.map_or(Cancelled::NotFound, |found| {
            Cancelled::AlreadyFinished(found.summary.state.stored())
        }))
    }
}

/// The attempt that the log of failed ones does not have: it runs, or completed the job.
fn last_attempt(job: &JobSummary) -> Option<JobAttempt> {
    if !matches!(job.state, JobView::Running | JobView::Completed) {
        return None;
    }
    Some(JobAttempt {
        attempt: job.attempt,
        started_at: job.started_at,
        finished_at: job.finished_at,
        worker: job.worker.clone(),
        outcome: job.state.as_str().to_owned(),
        error: None,
    })
}
