//! Recording: an event is written in the caller's transaction, with any driver; so is a job.
//!
//! What it is: a thin wrapper of the SQL functions `record`, `record_many` and `complete`. The
//! functions are the contract; the wrapper adds types.
//!
//! How it fails: [`Error`] with a kind that says what was refused. What can be seen to be wrong
//! without the database is refused before it is asked; a refusal by the database leaves the
//! caller's transaction aborted, as any failed statement does.
//!
//! Invariants: one round trip for a call; nothing is cached between calls; every driver passes the
//! same texts, so every driver writes the same rows.

mod enqueue;
mod transaction;

#[cfg(feature = "diesel-async")]
mod diesel;
#[cfg(feature = "sea-orm")]
mod sea_orm;
#[cfg(feature = "sqlx")]
mod sqlx;
#[cfg(feature = "tokio-postgres")]
mod tokio_postgres;

use std::fmt::Write as _;

use postrider_core::{NewEvent, Payload, TypeName, Uuid};
use serde::Serialize;
use serde_json::value::RawValue;

pub use enqueue::{Enqueued, JobArguments};
pub use transaction::{Transaction, TransactionError};

use crate::{Error, ErrorKind, Schema};

/// A payload type that belongs to one event type.
///
/// ```
/// use postrider::TypedEvent;
/// #[derive(serde::Serialize, serde::Deserialize)]
/// struct OrderPlaced { order_id: i64, amount: i64 }
/// impl TypedEvent for OrderPlaced {
///     const TYPE: &'static str = "order.placed";
/// }
/// let event = OrderPlaced { order_id: 42, amount: 12 }.about("order:42")?.tenant("acme")?;
/// assert_eq!(event.payload.as_json(), Some(r#"{"order_id":42,"amount":12}"#));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A handler reads it back with `delivery.event.data::<OrderPlaced>()`.
pub trait TypedEvent: Serialize {
    /// The event type, such as `order.placed`.
    const TYPE: &'static str;

    /// The event that carries `self` about `subject`.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] when the type, the subject or the data breaks a rule.
    fn about(&self, subject: impl Into<String>) -> Result<NewEvent, Error>
    where
        Self: Sized,
    {
        Ok(NewEvent::new(Self::TYPE, subject)?.data(self)?)
    }
}

/// A running job as its worker knows it: the id, and the token that proves that it is still held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct JobLease {
    /// The id of the job.
    pub job_id: i64,
    /// The fencing token of the claim.
    pub token: i64,
}

/// Records events in a caller's transaction. Cheap to make and to clone.
///
/// ```no_run
/// # #[cfg(feature = "tokio-postgres")]
/// # async fn example(client: &mut tokio_postgres::Client)
/// # -> Result<(), Box<dyn std::error::Error>> {
/// use postrider::{NewEvent, Recorder};
/// let recorder = Recorder::default();
/// let mut transaction = client.transaction().await?;
/// transaction.execute("insert into orders (id) values (42)", &[]).await?;
/// let event = NewEvent::new("order.placed", "order:42")?.data(&serde_json::json!({"id": 42}))?;
/// recorder.record(&mut transaction, &event).await?;
/// transaction.commit().await?; // the row and the event, or neither
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Recorder {
    record: String,
    record_many: String,
    complete: String,
    enqueue: String,
    enqueue_many: String,
}

impl Default for Recorder {
    /// A recorder for the schema `postrider`.
    fn default() -> Self {
        Self::new(&Schema::default())
    }
}

impl Recorder {
    /// A recorder for `schema`.
    #[must_use]
    pub fn new(schema: &Schema) -> Self {
        Self {
            record: schema.render(include_str!("../sql/calls/record.sql")),
            record_many: schema.render(include_str!("../sql/calls/record_many.sql")),
            complete: schema.render(include_str!("../sql/calls/complete.sql")),
            enqueue: schema.render(include_str!("../sql/calls/enqueue.sql")),
            enqueue_many: schema.render(include_str!("../sql/calls/enqueue_many.sql")),
        }
    }

    /// Records one event and returns its id.
    ///
    /// With an id of the caller's, recording the same event again within the idempotency window
    /// (7 days unless set otherwise) changes nothing and returns the same id.
    ///
    /// # Errors
    /// [`ErrorKind::UndeclaredType`], [`ErrorKind::Invalid`], [`ErrorKind::TooLarge`],
    /// [`ErrorKind::IdTaken`] for what the event is; [`ErrorKind::Schema`],
    /// [`ErrorKind::Unreachable`] or [`ErrorKind::Database`] for the rest.
    pub async fn record<T: Transaction>(
        &self,
        transaction: &mut T,
        event: &NewEvent,
    ) -> Result<Uuid, Error> {
        let parts = Parts::of(event)?;
        let params = [
            Some(event.event_type.as_str()),
            Some(event.subject.as_str()),
            parts.data,
            event.key.as_deref(),
            Some(event.tenant.as_str()),
            parts.headers.as_deref(),
            parts.id.as_deref(),
            parts.body.as_deref(),
            parts.content_type,
        ];
        let id = transaction.call(&self.record, &params).await?;
        parse_id(id.as_deref())
    }

    /// Records a typed event about `subject` and returns its id.
    ///
    /// # Errors
    /// As [`Recorder::record`].
    pub async fn record_typed<T: Transaction, E: TypedEvent + Sync>(
        &self,
        transaction: &mut T,
        subject: impl Into<String> + Send,
        event: &E,
    ) -> Result<Uuid, Error> {
        let event = event.about(subject)?;
        self.record(transaction, &event).await
    }

    /// Records up to 10,000 events in order, all or none, and returns their ids in the same order.
    ///
    /// # Errors
    /// As [`Recorder::record`]; the message names the place of the event in the batch, from 1.
    pub async fn record_many<T: Transaction>(
        &self,
        transaction: &mut T,
        events: &[NewEvent],
    ) -> Result<Vec<Uuid>, Error> {
        let batch = batch_json(events)?;
        let ids = transaction.call(&self.record_many, &[Some(&batch)]).await?;
        ids.unwrap_or_default().split_terminator(',').map(|id| parse_id(Some(id))).collect()
    }

    /// Settles a job as completed inside the transaction in which its handler did the work: both
    /// are committed, or neither.
    ///
    /// # Errors
    /// [`ErrorKind::Stale`] when the lease was lost: the transaction is aborted and cannot commit,
    /// because another worker has the job or has already settled it.
    pub async fn complete<T: Transaction>(
        &self,
        transaction: &mut T,
        lease: JobLease,
        output: Option<&RawValue>,
    ) -> Result<(), Error> {
        let (job_id, token) = (lease.job_id.to_string(), lease.token.to_string());
        let params = [Some(job_id.as_str()), Some(token.as_str()), output.map(RawValue::get)];
        transaction.call(&self.complete, &params).await?;
        Ok(())
    }
}

/// The optional parts of an event as the texts that the SQL functions take.
struct Parts<'a> {
    data: Option<&'a str>,
    headers: Option<String>,
    id: Option<String>,
    body: Option<String>,
    content_type: Option<&'a str>,
}

impl<'a> Parts<'a> {
    fn of(event: &'a NewEvent) -> Result<Self, Error> {
        event.check()?;
        let headers = match event.headers.is_empty() {
            true => None,
            false => Some(to_json(&event.headers)?),
        };
        let (data, body, content_type) = match &event.payload {
            Payload::Json(text) => (Some(text.get()), None, None),
            Payload::Bytes { content_type, body } => {
                (None, Some(hex(body)), Some(content_type.as_str()))
            }
        };
        Ok(Self { data, headers, id: event.id.map(|id| id.to_string()), body, content_type })
    }
}

/// One event of a batch, with the field names of `record_many`.
#[derive(Serialize)]
struct BatchEvent<'a> {
    r#type: &'a TypeName,
    subject: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_type: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    tenant: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    headers: Option<&'a postrider_core::Headers>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<Uuid>,
}

fn batch_json(events: &[NewEvent]) -> Result<String, Error> {
    for (place, event) in (1..).zip(events) {
        event.check().map_err(|invalid| {
            let message = format!("event {place} of the batch: {invalid}");
            Error::new(ErrorKind::Invalid, message).with_field(invalid.field())
        })?;
    }
    let batch: Vec<BatchEvent<'_>> = events
        .iter()
        .map(|event| {
            let (data, body, content_type) = match &event.payload {
                Payload::Json(text) => (Some(&**text), None, None),
                Payload::Bytes { content_type, body } => {
                    (None, Some(hex(body)), Some(content_type.as_str()))
                }
            };
            BatchEvent {
                r#type: &event.event_type,
                subject: &event.subject,
                data,
                body,
                content_type,
                key: event.key.as_deref(),
                tenant: &event.tenant,
                headers: Some(&event.headers).filter(|headers| !headers.is_empty()),
                id: event.id,
            }
        })
        .collect();
    to_json(&batch)
}

fn to_json<T: Serialize>(value: &T) -> Result<String, Error> {
    serde_json::to_string(value).map_err(|error| {
        Error::new(ErrorKind::Invalid, "it cannot be written as JSON").with_source(error)
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn parse_id(text: Option<&str>) -> Result<Uuid, Error> {
    text.and_then(|text| Uuid::parse_str(text).ok()).ok_or_else(|| {
        Error::new(ErrorKind::Bug, format!("`record` answered {text:?} instead of an id"))
            .with_hint("report it with the versions of Postrider and PostgreSQL")
    })
}
