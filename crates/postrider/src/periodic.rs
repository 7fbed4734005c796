//! Periodic jobs: what enqueues a job of a kind at each tick of a cron expression.
//!
//! How it fails: [`crate::Invalid`] for an expression or time zone that cannot be read. Invariant:
//! a checked declaration has a schedule that can be computed.

pub(crate) mod schedule;

use postrider_core::{Invalid, NewJob, Priority};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use self::schedule::Schedule;

/// What becomes of ticks that nobody was there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CatchUp {
    /// They pass: a tick that is more than a minute late gets no job.
    Skip,
    /// One job stands for all of them: that of the latest tick.
    #[default]
    Once,
    /// Each gets its job, in order, up to the limit: the earliest beyond that pass.
    All,
}

impl CatchUp {
    /// The word used in SQL, JSON and on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Skip => "skip",
            Self::Once => "once",
            Self::All => "all",
        }
    }
}

impl std::str::FromStr for CatchUp {
    type Err = Invalid;

    fn from_str(word: &str) -> Result<Self, Invalid> {
        let all = [Self::Skip, Self::Once, Self::All];
        all.into_iter()
            .find(|catch_up| catch_up.as_str() == word)
            .ok_or_else(|| Invalid::new("catch_up", format!("`{word}` is none of skip, once, all")))
    }
}

/// A job that is enqueued again and again.
///
/// The expression has five fields (minute, hour, day of month, month, day of week), or six with
/// seconds first, or is `@hourly`, `@daily`, `@weekly`, `@monthly`, `@yearly`. Where clocks change:
/// a schedule with one minute and one hour fires once on each of its local days, at the end of the
/// gap when its time is skipped, and at the first of the two when it is repeated. Any other fires
/// whenever the local clock shows a time of it, so a quarter-hourly one keeps its spacing.
///
/// ```
/// use postrider::{CatchUp, Periodic};
/// let report = Periodic::new("report.nightly", "report.build", "30 2 * * *")?
///     .time_zone("America/New_York")?
///     .arguments(&serde_json::json!({"pages": 3}))?
///     .catch_up(CatchUp::All, 10);
/// assert!(report.check().is_ok());
/// # Ok::<(), postrider::Invalid>(())
/// ```
#[derive(Debug, Clone)]
pub struct Periodic {
    /// The unique name, such as `report.nightly`: letters, digits, `.`, `_`, `-`; at most 128
    /// bytes.
    pub name: String,
    /// The kind of its jobs; it must be declared.
    pub kind: String,
    /// The cron expression, at most 255 bytes.
    pub cron: String,
    /// The time zone by its IANA name. Defaults to `UTC`.
    pub time_zone: String,
    /// The arguments of its jobs. Defaults to `{}`.
    pub arguments: Box<RawValue>,
    /// Which due job goes first. Defaults to what the kind says.
    pub priority: Option<Priority>,
    /// What becomes of ticks that nobody was there for. Defaults to one job for all of them.
    pub catch_up: CatchUp,
    /// The most ticks that are caught up at once, 1 to 1,000. Defaults to 100.
    pub catch_up_max: i32,
    /// The version of this declaration, 1 or more: a lower one never overwrites. Defaults to 1.
    pub version: i32,
}

impl Periodic {
    /// A job of `kind` at each tick of `cron` in UTC.
    ///
    /// # Errors
    /// [`Invalid`] when a name breaks its rules or the expression cannot be read.
    pub fn new(
        name: impl Into<String>,
        kind: impl Into<String>,
        cron: impl Into<String>,
    ) -> Result<Self, Invalid> {
        let job = NewJob::new(kind)?;
        let periodic = Self {
            name: name.into(),
            kind: job.kind,
            cron: cron.into(),
            time_zone: "UTC".to_owned(),
            arguments: job.arguments,
            priority: None,
            catch_up: CatchUp::default(),
            catch_up_max: 100,
            version: 1,
        };
        periodic.check()?;
        Ok(periodic)
    }

    /// Sets the time zone, such as `Europe/Berlin`.
    ///
    /// # Errors
    /// [`Invalid`] when there is no such time zone.
    pub fn time_zone(mut self, name: impl Into<String>) -> Result<Self, Invalid> {
        self.time_zone = name.into();
        self.check()?;
        Ok(self)
    }

    /// Sets the arguments of its jobs.
    ///
    /// # Errors
    /// [`Invalid`] when they cannot be written as JSON.
    pub fn arguments<T: Serialize + ?Sized>(mut self, arguments: &T) -> Result<Self, Invalid> {
        self.arguments = NewJob::new(self.kind.as_str())?.arguments(arguments)?.arguments;
        Ok(self)
    }

    /// Sets which due job goes first.
    #[must_use]
    pub fn priority(mut self, priority: Priority) -> Self {
        self.priority = Some(priority);
        self
    }

    /// Sets what becomes of ticks that nobody was there for; at most `ticks` of them, 1 to 1,000.
    #[must_use]
    pub fn catch_up(mut self, catch_up: CatchUp, ticks: i32) -> Self {
        self.catch_up = catch_up;
        self.catch_up_max = ticks;
        self
    }

    /// Sets the version of the declaration; raise it when the declaration changes.
    #[must_use]
    pub fn version(mut self, version: i32) -> Self {
        self.version = version;
        self
    }

    /// Checks every field.
    ///
    /// # Errors
    /// [`Invalid`] for the first field that breaks a rule.
    pub fn check(&self) -> Result<(), Invalid> {
        // A periodic job and a kind are named by the same rules.
        NewJob::new(self.name.as_str()).map_err(|error| {
            let text = error.to_string();
            Invalid::new("name", text.strip_prefix("kind: ").unwrap_or(&text))
        })?;
        NewJob::new(self.kind.as_str())?;
        if !(1..=1000).contains(&self.catch_up_max) {
            return Err(Invalid::new("catch_up_max", "is out of range; 1 to 1,000 are possible"));
        }
        if self.version < 1 {
            return Err(Invalid::new("version", "is below 1"));
        }
        Schedule::parse(&self.cron, &self.time_zone).map(|_| ())
    }
}
