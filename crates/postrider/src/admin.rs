//! Administration: what the command line, the API and the panel ask and do.
//!
//! How it fails: with an [`Error`] that names what is missing or in the way; what a conditional
//! write found is a word, never an error and never a count. Invariant: this is the only door;
//! nobody else speaks to the tables.
//!
//! ```no_run
//! # async fn example() -> Result<(), postrider::Error> {
//! use postrider::admin::{Admin, EventFilter, EventState};
//! use postrider::{Database, Schema};
//!
//! let database = Database::new("postgres://app@localhost/shop")?;
//! let admin = Admin::connect(&database, &Schema::default()).await?;
//! let poisoned = EventFilter { state: Some(EventState::Poisoned), ..EventFilter::default() };
//! for event in admin.events(&poisoned).await?.items {
//!     println!("{} {}: {}", event.seq, event.event_type, event.last_error.unwrap_or_default());
//! }
//! # Ok(())
//! # }
//! ```

mod bulk;
mod doctor;
mod events;
mod jobs;
mod kinds;
pub(crate) mod periodic;
mod subscriptions;
mod types;

use std::fmt;

use serde::Serialize;

pub use bulk::{BulkAction, BulkProgress, JobSelection};
pub use doctor::{Finding, Level, Limits, Report, examine};
pub use events::{
    EventDetail, EventFilter, EventJob, EventRef, EventState, EventSummary, FanoutFailure,
    Requeued, Skipped,
};
pub use jobs::{Cancelled, JobAttempt, JobDetail, JobFilter, JobSummary, JobView, Retried};
pub use kinds::KindDeclared;
pub use periodic::{PeriodicDeclared, PeriodicInfo, PeriodicRun};
pub use subscriptions::{Lag, SubscriptionInfo};
pub use types::{Declaration, DeclaredType, TypeInfo};

use crate::store::Store;
use crate::{Database, Error, ErrorKind, Schema, migrate};

/// The most rows of one page.
pub const PAGE_MAX: i64 = 1_000;
/// Beyond this, things are not counted but said to be more.
pub const COUNT_MAX: i64 = 10_000;

/// A handle for administration. Cheap to clone; it shares one small pool of connections.
#[derive(Clone)]
pub struct Admin {
    store: Store,
}

impl Admin {
    /// Connects and checks that the schema is the one of this program.
    ///
    /// # Errors
    /// [`ErrorKind::Unreachable`] when the database does not answer, [`ErrorKind::Configuration`]
    /// when it refuses the user or there is no such database, [`ErrorKind::Schema`] when the schema
    /// is missing, older or newer.
    pub async fn connect(database: &Database, schema: &Schema) -> Result<Self, Error> {
        let client = database.connect().await?;
        migrate::require_current(&client, schema).await?;
        Ok(Self { store: Store::new(database, schema)?.unnamed_statements().patient() })
    }
}

impl fmt::Debug for Admin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admin").field("schema", &self.store.schema).finish_non_exhaustive()
    }
}

/// A part of a list, with the way to the rest.
#[derive(Debug, Clone, Serialize)]
pub struct Page<T> {
    /// The rows, newest first.
    pub items: Vec<T>,
    /// Pass this as `before` to get what follows; `None` at the end.
    pub next: Option<i64>,
}

impl<T> Page<T> {
    /// A page of `limit` rows from a look for one more, which tells whether there is another page.
    fn new(mut items: Vec<T>, limit: i64, place: impl Fn(&T) -> i64) -> Self {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let more = items.len() > limit;
        items.truncate(limit);
        let next = items.last().filter(|_| more).map(place);
        Self { items, next }
    }
}

/// Refuses a page that is empty by request, or too long.
fn check_limit(limit: i64) -> Result<(), Error> {
    if (1..=PAGE_MAX).contains(&limit) {
        return Ok(());
    }
    let message = format!("limit: {limit} is out of range, 1 to {PAGE_MAX}");
    Err(Error::new(ErrorKind::Invalid, message).with_field("limit"))
}

/// A count that ends at [`COUNT_MAX`].
///
/// ```
/// use postrider::admin::Count;
/// assert_eq!(Count { at_least: 10_000, exact: false }.to_string(), "10000+");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Count {
    /// The count, or the limit when there are more.
    pub at_least: i64,
    /// Whether that is all.
    pub exact: bool,
}

impl Count {
    /// From a count that goes one over the limit when there are more.
    pub(crate) fn of(counted: i64) -> Self {
        Self { at_least: counted.min(COUNT_MAX), exact: counted <= COUNT_MAX }
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.at_least, if self.exact { "" } else { "+" })
    }
}
