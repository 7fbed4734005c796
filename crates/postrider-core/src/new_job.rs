//! A job that an application enqueues.
//!
//! How it fails: [`Invalid`] for what breaks a rule. Invariant: a checked job holds nothing that
//! the database would refuse for its form; whether its kind is declared only the database knows.

use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;
use time::OffsetDateTime;

use crate::event::{KEY_BYTES_MAX, TENANT_BYTES_MAX};
use crate::invalid::{check_optional_text, check_text};
use crate::subscription::check_name;
use crate::{Invalid, JobState, Priority};

/// The most bytes of the arguments of a job unless the instance sets another limit.
pub const ARGUMENTS_BYTES_MAX: usize = crate::DATA_BYTES_MAX;
/// The longest wait: a year and a day.
const WAIT_MAX: Duration = Duration::from_secs(366 * 24 * 60 * 60);
/// The most arguments that may be named for uniqueness.
const UNIQUE_NAMES_MAX: usize = 20;

/// A job to enqueue.
///
/// ```
/// use std::time::Duration;
/// use postrider_core::{NewJob, Priority, Unique};
/// let job = NewJob::new("mail.receipt")?
///     .arguments(&serde_json::json!({"order_id": 42}))?
///     .delay(Duration::from_secs(60))
///     .priority(Priority::Low)
///     .unique(Unique::by(["order_id"]));
/// assert!(job.check().is_ok());
/// # Ok::<(), postrider_core::Invalid>(())
/// ```
#[derive(Debug, Clone)]
pub struct NewJob {
    /// The kind; it must be declared.
    pub kind: String,
    /// The arguments as JSON. Defaults to `{}`.
    pub arguments: Box<RawValue>,
    /// From when on it may run. Defaults to at once.
    pub run_at: Option<OffsetDateTime>,
    /// How long it waits at least, up to a year; instead of `run_at`.
    pub delay: Option<Duration>,
    /// Which due job goes first. Defaults to what the kind says.
    pub priority: Option<Priority>,
    /// How often it is tried, 1 to 1,000. Defaults to what the kind says; is kept as a difference
    /// to that, so it moves along when the kind changes.
    pub max_attempts: Option<i32>,
    /// Its owner. Defaults to the empty text.
    pub tenant: String,
    /// What it is about, for people and for order by key; at most 1,024 bytes.
    pub key: Option<String>,
    /// Whether it is enqueued only if no other job stands for it. Defaults to always.
    pub unique: Option<Unique>,
}

impl NewJob {
    /// A job of `kind` with the arguments `{}`.
    ///
    /// # Errors
    /// [`Invalid`] when the name breaks its rules.
    pub fn new(kind: impl Into<String>) -> Result<Self, Invalid> {
        let kind = kind.into();
        check_name("kind", &kind)?;
        Ok(Self {
            kind,
            arguments: to_raw(&serde_json::Map::new())?,
            run_at: None,
            delay: None,
            priority: None,
            max_attempts: None,
            tenant: String::new(),
            key: None,
            unique: None,
        })
    }

    /// Sets the arguments.
    ///
    /// # Errors
    /// [`Invalid`] when the value cannot be written as JSON.
    pub fn arguments<T: Serialize + ?Sized>(mut self, arguments: &T) -> Result<Self, Invalid> {
        self.arguments = to_raw(arguments)?;
        Ok(self)
    }

    /// Runs it at this time or later.
    #[must_use]
    pub fn run_at(mut self, at: OffsetDateTime) -> Self {
        self.run_at = Some(at);
        self
    }

    /// Runs it after this time, by the database's clock, up to a year.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = Some(delay);
        self
    }

    /// Sets which due job goes first.
    #[must_use]
    pub fn priority(mut self, priority: Priority) -> Self {
        self.priority = Some(priority);
        self
    }

    /// Sets how often it is tried, 1 to 1,000.
    #[must_use]
    pub fn max_attempts(mut self, attempts: i32) -> Self {
        self.max_attempts = Some(attempts);
        self
    }

    /// Sets its owner.
    #[must_use]
    pub fn tenant(mut self, tenant: impl Into<String>) -> Self {
        self.tenant = tenant.into();
        self
    }

    /// Sets what it is about.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Enqueues it only if no other job stands for it.
    #[must_use]
    pub fn unique(mut self, unique: Unique) -> Self {
        self.unique = Some(unique);
        self
    }

    /// The time from which on it may run, as RFC 3339.
    ///
    /// # Errors
    /// [`Invalid`] for a year that the format cannot hold.
    pub fn run_at_text(&self) -> Result<Option<String>, Invalid> {
        let text = self.run_at.map(|at| at.format(&time::format_description::well_known::Rfc3339));
        text.transpose().map_err(|_| Invalid::new("run_at", "is out of range"))
    }

    /// Checks every field.
    ///
    /// # Errors
    /// [`Invalid`] for the first field that breaks a rule.
    pub fn check(&self) -> Result<(), Invalid> {
        check_name("kind", &self.kind)?;
        check_optional_text("tenant", &self.tenant, TENANT_BYTES_MAX)?;
        if let Some(key) = &self.key {
            check_text("key", key, KEY_BYTES_MAX)?;
        }
        if !self.max_attempts.is_none_or(|attempts| (1..=1000).contains(&attempts)) {
            return Err(Invalid::new("max_attempts", "is out of range; 1 to 1,000 are possible"));
        }
        check_wait("delay", self.delay)?;
        let debounce = self.unique.as_ref().and_then(|unique| unique.debounce);
        let times =
            [self.run_at.is_some(), self.delay.is_some(), debounce.is_some()].map(usize::from);
        if times.iter().sum::<usize>() > 1 {
            let problem = "only one of a time, a delay and a debounce is possible";
            return Err(Invalid::new("run_at", problem));
        }
        self.unique.as_ref().map_or(Ok(()), Unique::check)
    }
}

/// By what a job is unique, among the jobs of its kind and tenant.
///
/// A job that waits stands for the new one; one that runs does not, since it may have read what
/// the caller is about to change. See [`Unique::also_while_running`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unique {
    by: Vec<String>,
    states: Vec<JobState>,
    within: Option<Duration>,
    debounce: Option<Duration>,
    debounce_max: Option<Duration>,
}

impl Unique {
    /// By all arguments.
    #[must_use]
    pub fn by_arguments() -> Self {
        Self::by(["*"])
    }

    /// By the arguments of these names, at the top level; 20 at most.
    pub fn by<N: Into<String>>(names: impl IntoIterator<Item = N>) -> Self {
        Self {
            by: names.into_iter().map(Into::into).collect(),
            states: vec![JobState::Pending],
            within: None,
            debounce: None,
            debounce_max: None,
        }
    }

    /// By kind and tenant alone: one job of the kind.
    #[must_use]
    pub fn by_kind() -> Self {
        Self::by::<String>([])
    }

    /// A job that runs stands for the new one too. Work that arrives during its run is then left to
    /// that run, which may have missed it.
    #[must_use]
    pub fn also_while_running(self) -> Self {
        self.in_states([JobState::Pending, JobState::Running])
    }

    /// Sets the states in which a job stands for the new one. `Pending` is a job that waits for any
    /// time or attempt. Finished states reach back as far as history is kept. Defaults to
    /// `Pending`.
    #[must_use]
    pub fn in_states(mut self, states: impl IntoIterator<Item = JobState>) -> Self {
        self.states = states.into_iter().collect();
        self
    }

    /// Only a job that was enqueued less than this long ago stands for the new one; up to a year.
    #[must_use]
    pub fn within(mut self, period: Duration) -> Self {
        self.within = Some(period);
        self
    }

    /// The latest wins: the job runs when none was enqueued for `wait`, with the latest arguments,
    /// and `longest` after the first was enqueued in any case.
    ///
    /// ```
    /// use std::time::Duration;
    /// use postrider_core::Unique;
    /// let minute = Duration::from_secs(60);
    /// let unique = Unique::by(["document"]).debounce(Duration::from_secs(5), minute);
    /// # let _ = unique;
    /// ```
    #[must_use]
    pub fn debounce(mut self, wait: Duration, longest: Duration) -> Self {
        self.debounce = Some(wait);
        self.debounce_max = Some(longest);
        self
    }

    /// The names of the arguments; one `*` for all.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.by
    }

    /// The states in which a job stands for the new one.
    #[must_use]
    pub fn states(&self) -> &[JobState] {
        &self.states
    }

    /// For how long a job stands.
    #[must_use]
    pub fn period(&self) -> Option<Duration> {
        self.within
    }

    /// The wait of a debounced job and the longest one.
    #[must_use]
    pub fn debounced(&self) -> Option<(Duration, Duration)> {
        self.debounce.zip(self.debounce_max)
    }

    fn check(&self) -> Result<(), Invalid> {
        if self.by.len() > UNIQUE_NAMES_MAX {
            return Err(Invalid::new("unique_by", "at most 20 names of arguments are possible"));
        }
        for name in &self.by {
            check_text("unique_by", name, KEY_BYTES_MAX)?;
        }
        if self.states.is_empty() {
            return Err(Invalid::new("unique_states", "no state is named"));
        }
        check_wait("unique_for", self.within)?;
        check_wait("debounce", self.debounce)?;
        check_wait("debounce_max", self.debounce_max)
    }
}

fn check_wait(field: &'static str, wait: Option<Duration>) -> Result<(), Invalid> {
    if wait.is_some_and(|wait| wait > WAIT_MAX) {
        return Err(Invalid::new(field, "is longer than a year"));
    }
    Ok(())
}

fn to_raw<T: Serialize + ?Sized>(arguments: &T) -> Result<Box<RawValue>, Invalid> {
    serde_json::value::to_raw_value(arguments)
        .map_err(|error| Invalid::new("arguments", format!("cannot be written as JSON: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_enqueued_is_refused_by_the_field() {
        let new = || NewJob::new("a").expect("a kind");
        let (hour, years) = (Duration::from_secs(3600), WAIT_MAX * 2);
        let wrong = [
            (new().tenant("a\nb"), "tenant"),
            (new().key(""), "key"),
            (new().max_attempts(0), "max_attempts"),
            (new().delay(years), "delay"),
            (new().delay(hour).run_at(OffsetDateTime::UNIX_EPOCH), "run_at"),
            (new().delay(hour).unique(Unique::by_kind().debounce(hour, hour)), "run_at"),
            (new().unique(Unique::by(vec!["a"; 21])), "unique_by"),
            (new().unique(Unique::by([""])), "unique_by"),
            (new().unique(Unique::by_kind().in_states([])), "unique_states"),
            (new().unique(Unique::by_kind().within(years)), "unique_for"),
        ];
        for (job, field) in wrong {
            assert_eq!(job.check().expect_err(field).field(), field);
        }
    }
}
