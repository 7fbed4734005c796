//! Events: list, look at, and decide about those whose fan-out keeps failing.
//!
//! How it fails: [`ErrorKind::NotFound`](crate::ErrorKind::NotFound) where a look needs an event that
//! is not there; decisions answer with a word. Invariant: only an event that is failing or poisoned
//! is requeued or skipped.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;
use time::OffsetDateTime;
use uuid::Uuid;

use super::{Admin, Page, check_limit};
use crate::{Error, Event, Glob, Invalid, JobState};

/// What became of an event so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EventState {
    /// Its fan-out is still to be done.
    Owed,
    /// Its fan-out failed and is tried again.
    Failing,
    /// Its fan-out failed too often and waits for a person.
    Poisoned,
    /// Every subscription that wants it got a job.
    FannedOut,
    /// A person gave it up.
    Skipped,
}

impl EventState {
    /// Every state.
    pub const ALL: [Self; 5] =
        [Self::Owed, Self::Failing, Self::Poisoned, Self::FannedOut, Self::Skipped];

    /// The word used in SQL, JSON and on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Owed => "owed",
            Self::Failing => "failing",
            Self::Poisoned => "poisoned",
            Self::FannedOut => "fanned_out",
            Self::Skipped => "skipped",
        }
    }
}

impl fmt::Display for EventState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for EventState {
    type Err = Invalid;

    fn from_str(word: &str) -> Result<Self, Invalid> {
        Self::ALL.into_iter().find(|state| state.as_str() == word).ok_or_else(|| {
            let known = Self::ALL.map(Self::as_str).join(", ");
            Invalid::new("state", format!("`{word}` is none of {known}"))
        })
    }
}

/// How a person names an event: by its id or by its place in the order of recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventRef {
    /// The id.
    Id(Uuid),
    /// The sequence number.
    Seq(i64),
}

impl FromStr for EventRef {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        if let Ok(seq) = text.parse::<i64>() {
            return Ok(Self::Seq(seq));
        }
        Uuid::parse_str(text)
            .map(Self::Id)
            .map_err(|_| Invalid::new("event", format!("`{text}` is neither an id nor a seq")))
    }
}

impl fmt::Display for EventRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => id.fmt(f),
            Self::Seq(seq) => seq.fmt(f),
        }
    }
}

/// Which events to list. Everything that is `None` is not asked for.
#[derive(Debug, Clone)]
pub struct EventFilter {
    /// Their types match this.
    pub type_glob: Option<Glob>,
    /// Their owner.
    pub tenant: Option<String>,
    /// What they are about.
    pub subject: Option<String>,
    /// What became of them.
    pub state: Option<EventState>,
    /// Recorded then or later.
    pub since: Option<OffsetDateTime>,
    /// Only those below this sequence number: [`Page::next`] of the page before.
    pub before: Option<i64>,
    /// How many at most, 1 to [`super::PAGE_MAX`]. Defaults to 50.
    pub limit: i64,
}

impl Default for EventFilter {
    fn default() -> Self {
        Self {
            type_glob: None,
            tenant: None,
            subject: None,
            state: None,
            since: None,
            before: None,
            limit: 50,
        }
    }
}

/// An event in a list.
#[derive(Debug, Clone, Serialize)]
pub struct EventSummary {
    /// The id; `None` when the event failed because its own row is gone.
    pub id: Option<Uuid>,
    /// The place in the order of recording.
    pub seq: i64,
    /// When it was recorded.
    #[serde(with = "time::serde::rfc3339")]
    pub occurred_at: OffsetDateTime,
    /// The type.
    #[serde(rename = "type")]
    pub event_type: String,
    /// What it is about.
    pub subject: String,
    /// The owner.
    pub tenant: String,
    /// The ordering key.
    pub key: String,
    /// What became of it.
    pub state: EventState,
    /// When it was fanned out or skipped.
    #[serde(with = "time::serde::rfc3339::option")]
    pub fanned_out_at: Option<OffsetDateTime>,
    /// How often its fan-out was tried, when that failed.
    pub attempts: Option<i32>,
    /// Why its fan-out failed last.
    pub last_error: Option<String>,
}

/// Everything about one event.
#[derive(Debug, Clone, Serialize)]
pub struct EventDetail {
    /// The event; `None` when its fan-out failed because its own row is gone.
    pub event: Option<Event>,
    /// Its place in the order of recording.
    pub seq: i64,
    /// What became of it.
    pub state: EventState,
    /// When it was fanned out or skipped.
    #[serde(with = "time::serde::rfc3339::option")]
    pub fanned_out_at: Option<OffsetDateTime>,
    /// The version of the routing under which it was.
    pub routing_version: Option<i64>,
    /// How its fan-out failed, while it is failing or poisoned.
    pub failure: Option<FanoutFailure>,
    /// The job of each subscription that got one, by the subscription's name.
    pub jobs: Vec<EventJob>,
}

/// How the fan-out of an event failed.
#[derive(Debug, Clone, Serialize)]
pub struct FanoutFailure {
    /// How often it was tried.
    pub attempts: i32,
    /// When it is tried again, unless it is poisoned.
    #[serde(with = "time::serde::rfc3339::option")]
    pub retry_at: Option<OffsetDateTime>,
    /// When it was poisoned.
    #[serde(with = "time::serde::rfc3339::option")]
    pub poisoned_at: Option<OffsetDateTime>,
    /// Why it failed last.
    pub last_error: Option<String>,
}

/// The job that one subscription got for an event.
#[derive(Debug, Clone, Serialize)]
pub struct EventJob {
    /// The subscription's name.
    pub subscription: String,
    /// The job.
    pub job_id: i64,
    /// Where it stands; `None` when it is over its retention.
    pub state: Option<JobState>,
    /// The event whose job stands for this one, by its sequence number, when it was coalesced.
    pub coalesced_into: Option<i64>,
    /// The id of that event.
    pub coalesced_into_id: Option<Uuid>,
}

/// What requeueing an event came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "result", content = "state")]
pub enum Requeued {
    /// It is tried again at once, with all its attempts.
    Requeued,
    /// It is neither failing nor poisoned, but this.
    NotPoisoned(EventState),
    /// There is no such event.
    NotFound,
}

/// What skipping an event came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "result", content = "state")]
pub enum Skipped {
    /// It is given up: no subscription gets it.
    Skipped,
    /// It is neither failing nor poisoned, but this.
    NotPoisoned(EventState),
    /// There is no such event.
    NotFound,
}

impl Admin {
    /// A page of events, newest first.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Invalid`] for a limit out of range.
    pub async fn events(&self, filter: &EventFilter) -> Result<Page<EventSummary>, Error> {
        check_limit(filter.limit)?;
        let items = self.store.events(filter).await?;
        Ok(Page::new(items, filter.limit, |event| event.seq))
    }

    /// Everything about one event, or `None` when there is no such event.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Database`] or [`crate::ErrorKind::Unreachable`].
    pub async fn event(&self, event: EventRef) -> Result<Option<EventDetail>, Error> {
        let Some(found) = self.store.find_event(event).await? else { return Ok(None) };
        let failure = found.failure();
        Ok(Some(EventDetail {
            event: self.store.read_event(&found).await?,
            seq: found.seq,
            state: found.state,
            fanned_out_at: found.fanned_out_at,
            routing_version: found.routing_version,
            failure,
            jobs: self.store.jobs_of_event(&found).await?,
        }))
    }

    /// Puts an event whose fan-out failed back, with all its attempts.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Database`] or [`crate::ErrorKind::Unreachable`].
    pub async fn requeue_event(&self, event: EventRef) -> Result<Requeued, Error> {
        let Some(found) = self.store.find_event(event).await? else {
            return Ok(Requeued::NotFound);
        };
        if self.store.requeue_event(found.seq).await? {
            return Ok(Requeued::Requeued);
        }
        let now = self.store.find_event(EventRef::Seq(found.seq)).await?;
        Ok(now.map_or(Requeued::NotFound, |found| Requeued::NotPoisoned(found.state)))
    }

    /// Gives an event whose fan-out failed up: no subscription gets it.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Database`] or [`crate::ErrorKind::Unreachable`].
    pub async fn skip_event(&self, event: EventRef) -> Result<Skipped, Error> {
        let Some(found) = self.store.find_event(event).await? else {
            return Ok(Skipped::NotFound);
        };
        if self.store.skip_event(found.seq).await? {
            return Ok(Skipped::Skipped);
        }
        let now = self.store.find_event(EventRef::Seq(found.seq)).await?;
        Ok(now.map_or(Skipped::NotFound, |found| Skipped::NotPoisoned(found.state)))
    }
}
