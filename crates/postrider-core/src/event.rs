//! Events: as a caller hands them over, and as a subscriber gets them.
//!
//! How it fails: [`Invalid`] for a field that breaks a limit. Invariant: JSON payloads are kept as
//! text and never pass through a binary number, so their digits stay as they were.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::invalid::{check_optional_text, check_text};
use crate::json::check_json;
use crate::{Invalid, TypeName};

/// The longest subject in bytes.
pub const SUBJECT_BYTES_MAX: usize = 1024;
/// The longest ordering key in bytes: it defaults to the subject, so it must hold one.
pub const KEY_BYTES_MAX: usize = 1024;
/// The longest tenant in bytes.
pub const TENANT_BYTES_MAX: usize = 255;
/// The most bytes that all headers may take together: brokers and proxies refuse much more.
pub const HEADERS_BYTES_MAX: usize = 8 * 1024;
/// The most bytes of payload, unless the setting `data_bytes_max` says otherwise.
pub const DATA_BYTES_MAX: usize = 256 * 1024;
/// Headers that begin so are Postrider's own; `webhook-`, `ce-` and `content-type` are too.
pub const RESERVED_HEADER_PREFIX: &str = "postrider-";

/// The headers of an event: names to texts.
pub type Headers = BTreeMap<String, String>;

/// What an event carries.
#[derive(Debug, Clone)]
pub enum Payload {
    /// A JSON document, as text.
    Json(Box<RawValue>),
    /// Anything else, with its media type.
    Bytes {
        /// The media type, such as `application/x-protobuf`.
        content_type: String,
        /// The bytes as they were recorded.
        body: Vec<u8>,
    },
}

impl Payload {
    /// Serializes `value` as a JSON payload.
    ///
    /// # Errors
    /// [`Invalid`] when `value` cannot be written as JSON (a map with keys that are no text, say).
    pub fn json<T: Serialize + ?Sized>(value: &T) -> Result<Self, Invalid> {
        serde_json::value::to_raw_value(value)
            .map(Self::Json)
            .map_err(|error| Invalid::new("data", format!("cannot be written as JSON: {error}")))
    }

    /// The JSON text, or `None` for bytes.
    #[must_use]
    pub fn as_json(&self) -> Option<&str> {
        match self {
            Self::Json(text) => Some(text.get()),
            Self::Bytes { .. } => None,
        }
    }
}

/// An event that is about to be recorded.
///
/// ```
/// use postrider_core::NewEvent;
/// let event = NewEvent::new("order.placed", "order:42")?
///     .data(&serde_json::json!({"amount": 12}))?
///     .tenant("acme")?
///     .header("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")?;
/// # Ok::<(), postrider_core::Invalid>(())
/// ```
#[derive(Debug, Clone)]
pub struct NewEvent {
    /// The type; it must have been declared.
    pub event_type: TypeName,
    /// What the event is about.
    pub subject: String,
    /// What it carries. Defaults to the empty JSON object.
    pub payload: Payload,
    /// The ordering key. Defaults to the subject.
    pub key: Option<String>,
    /// The owner. Defaults to the empty text: there is only one.
    pub tenant: String,
    /// Extra headers. Defaults to none.
    pub headers: Headers,
    /// The id, when the caller makes it so that a repeated record is recognised. Defaults to one
    /// made by the database.
    pub id: Option<Uuid>,
}

impl NewEvent {
    /// An event of `event_type` about `subject`, with an empty JSON object as data.
    ///
    /// # Errors
    /// [`Invalid`] when the type or the subject breaks its rules.
    pub fn new(event_type: impl Into<String>, subject: impl Into<String>) -> Result<Self, Invalid> {
        let subject = subject.into();
        check_text("subject", &subject, SUBJECT_BYTES_MAX)?;
        Ok(Self {
            event_type: TypeName::parse(event_type)?,
            subject,
            payload: Payload::json(&serde_json::Map::new())?,
            key: None,
            tenant: String::new(),
            headers: Headers::new(),
            id: None,
        })
    }

    /// Sets the data to `value` as JSON.
    ///
    /// # Errors
    /// [`Invalid`] when `value` cannot be written as JSON.
    pub fn data<T: Serialize + ?Sized>(mut self, value: &T) -> Result<Self, Invalid> {
        self.payload = Payload::json(value)?;
        Ok(self)
    }

    /// Sets the data to a JSON text that stays as it is, digits included.
    #[must_use]
    pub fn raw_json(mut self, text: Box<RawValue>) -> Self {
        self.payload = Payload::Json(text);
        self
    }

    /// Sets the data to bytes with a media type.
    ///
    /// # Errors
    /// [`Invalid`] when the media type is empty, longer than 255 bytes or has no `/`.
    pub fn bytes(
        mut self,
        content_type: impl Into<String>,
        body: impl Into<Vec<u8>>,
    ) -> Result<Self, Invalid> {
        let content_type = content_type.into();
        check_content_type(&content_type)?;
        self.payload = Payload::Bytes { content_type, body: body.into() };
        Ok(self)
    }

    /// Sets the ordering key.
    ///
    /// # Errors
    /// [`Invalid`] when it is empty, longer than 1,024 bytes or holds control characters.
    pub fn key(mut self, key: impl Into<String>) -> Result<Self, Invalid> {
        let key = key.into();
        check_text("key", &key, KEY_BYTES_MAX)?;
        self.key = Some(key);
        Ok(self)
    }

    /// Sets the tenant.
    ///
    /// # Errors
    /// [`Invalid`] when it is longer than 255 bytes or holds control characters.
    pub fn tenant(mut self, tenant: impl Into<String>) -> Result<Self, Invalid> {
        let tenant = tenant.into();
        check_optional_text("tenant", &tenant, TENANT_BYTES_MAX)?;
        self.tenant = tenant;
        Ok(self)
    }

    /// Adds a header, replacing one of the same name.
    ///
    /// # Errors
    /// [`Invalid`] when the name is reserved or no HTTP token, or the value holds control
    /// characters.
    pub fn header(
        mut self,
        name: impl Into<String>,
        value: impl Into<String>,
    ) -> Result<Self, Invalid> {
        let (name, value) = (name.into(), value.into());
        check_header(&name, &value)?;
        self.headers.insert(name, value);
        Ok(self)
    }

    /// Sets the id, which makes a repeated record within the idempotency window a no-op.
    #[must_use]
    pub fn id(mut self, id: Uuid) -> Self {
        self.id = Some(id);
        self
    }

    /// Checks every field, for an event whose fields were set one by one. Recording does it, so
    /// that what can be refused here costs no round trip and leaves the transaction usable.
    ///
    /// # Errors
    /// [`Invalid`] for the first field that breaks a rule, among them JSON that PostgreSQL cannot
    /// hold: NUL and halves of surrogate pairs.
    pub fn check(&self) -> Result<(), Invalid> {
        check_text("subject", &self.subject, SUBJECT_BYTES_MAX)?;
        if let Some(key) = &self.key {
            check_text("key", key, KEY_BYTES_MAX)?;
        }
        check_optional_text("tenant", &self.tenant, TENANT_BYTES_MAX)?;
        for (name, value) in &self.headers {
            check_header(name, value)?;
        }
        match &self.payload {
            Payload::Json(text) => check_json("data", text.get()),
            Payload::Bytes { content_type, .. } => check_content_type(content_type),
        }
    }
}

/// Refuses what is no media type.
fn check_content_type(content_type: &str) -> Result<(), Invalid> {
    check_text("content_type", content_type, 255)?;
    match content_type.split_once('/') {
        Some((kind, rest)) if !kind.is_empty() && !rest.is_empty() && !rest.contains('/') => Ok(()),
        _ => Err(Invalid::new("content_type", "is no media type such as `image/png`")),
    }
}

/// Refuses a header that could not be sent, or that is Postrider's own.
fn check_header(name: &str, value: &str) -> Result<(), Invalid> {
    check_text("headers", name, 128)?;
    let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    if !name.chars().all(token) {
        return Err(Invalid::new("headers", format!("`{name}` is no header name")));
    }
    let lower = name.to_ascii_lowercase();
    let reserved = [RESERVED_HEADER_PREFIX, "webhook-", "ce-"];
    if lower == "content-type" || reserved.iter().any(|prefix| lower.starts_with(prefix)) {
        return Err(Invalid::new("headers", format!("`{name}` is reserved")));
    }
    check_optional_text("headers", value, HEADERS_BYTES_MAX)
}

/// An event as it was recorded, as handlers and sinks get it.
#[derive(Debug, Clone)]
pub struct Event {
    /// The id: a UUIDv7 unless the caller gave another.
    pub id: Uuid,
    /// The place in the order of recording; gaps are normal.
    pub seq: i64,
    /// The owner; empty when there is only one.
    pub tenant: String,
    /// The type.
    pub event_type: String,
    /// What the event is about.
    pub subject: String,
    /// The ordering key.
    pub key: String,
    /// When it was recorded, by the database's clock.
    pub occurred_at: OffsetDateTime,
    /// What it carries.
    pub payload: Payload,
    /// Extra headers.
    pub headers: Headers,
}

impl Event {
    /// Reads the JSON data as `T`.
    ///
    /// # Errors
    /// A [`serde_json::Error`] when the payload is bytes or does not fit `T`.
    pub fn data<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        match &self.payload {
            Payload::Json(text) => serde_json::from_str(text.get()),
            Payload::Bytes { content_type, .. } => Err(serde::de::Error::custom(format!(
                "the event carries bytes of type {content_type}, not JSON"
            ))),
        }
    }
}

impl Serialize for Event {
    /// The shape of `tail`, `events show` and the API: payload under `data`, or as base-16 text
    /// under `body` beside its `content_type`.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("id", &self.id)?;
        map.serialize_entry("seq", &self.seq)?;
        map.serialize_entry("tenant", &self.tenant)?;
        map.serialize_entry("type", &self.event_type)?;
        map.serialize_entry("subject", &self.subject)?;
        map.serialize_entry("key", &self.key)?;
        map.serialize_entry("occurred_at", &Rfc3339(self.occurred_at))?;
        match &self.payload {
            Payload::Json(text) => map.serialize_entry("data", text)?,
            Payload::Bytes { content_type, body } => {
                map.serialize_entry("content_type", content_type)?;
                map.serialize_entry("body", &hex(body))?;
            }
        }
        map.serialize_entry("headers", &self.headers)?;
        map.end()
    }
}

#[derive(Serialize, Deserialize)]
struct Rfc3339(#[serde(with = "time::serde::rfc3339")] OffsetDateTime);

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_fields_are_refused_by_name() {
        let event = || NewEvent::new("a.b", "s").expect("valid");
        assert_eq!(NewEvent::new("a.b", "").unwrap_err().field(), "subject");
        assert_eq!(NewEvent::new("a.b", "x\0").unwrap_err().field(), "subject");
        assert_eq!(NewEvent::new("a.b", "x".repeat(1025)).unwrap_err().field(), "subject");
        assert_eq!(event().key("").unwrap_err().field(), "key");
        assert_eq!(event().tenant("t\n").unwrap_err().field(), "tenant");
        for name in ["Webhook-Id", "ce-id", "postrider-x", "Content-Type", "a b", ""] {
            assert_eq!(event().header(name, "v").unwrap_err().field(), "headers", "{name}");
        }
        assert!(event().header("x", "a\r\nb: c").is_err());
        for media_type in ["png", "image/", "/png", "a/b/c", ""] {
            let refused = event().bytes(media_type, vec![1]).unwrap_err();
            assert_eq!(refused.field(), "content_type", "{media_type}");
        }
    }

    #[test]
    fn fields_that_were_set_one_by_one_are_checked_as_a_whole() {
        let refused = |change: fn(&mut NewEvent)| {
            let mut event = NewEvent::new("a.b", "s").expect("valid");
            assert!(event.check().is_ok());
            change(&mut event);
            event.check().expect_err("it was spoilt").field()
        };
        assert_eq!(refused(|event| event.subject.clear()), "subject");
        assert_eq!(refused(|event| event.key = Some(String::new())), "key");
        assert_eq!(refused(|event| event.tenant = "\n".into()), "tenant");
        assert_eq!(
            refused(|event| drop(event.headers.insert("ce-id".into(), "1".into()))),
            "headers"
        );
        let bytes = |event: &mut NewEvent| {
            event.payload = Payload::Bytes { content_type: "png".into(), body: vec![] };
        };
        assert_eq!(refused(bytes), "content_type");
        let nul = |event: &mut NewEvent| event.payload = Payload::json("\0").expect("JSON");
        assert_eq!(refused(nul), "data");
    }

    #[test]
    fn the_digits_of_json_numbers_survive_serializing_an_event() {
        let text = r#"{"n":18446744073709551617,"d":0.1234567890123456789}"#;
        let raw = RawValue::from_string(text.to_owned()).expect("JSON");
        let event = Event {
            id: Uuid::nil(),
            seq: 1,
            tenant: String::new(),
            event_type: "a.b".into(),
            subject: "s".into(),
            key: "s".into(),
            occurred_at: OffsetDateTime::UNIX_EPOCH,
            payload: Payload::Json(raw),
            headers: Headers::new(),
        };
        let line = serde_json::to_string(&event).expect("serializes");
        assert!(line.contains(text), "{line}");
    }
}
