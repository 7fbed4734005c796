//! Subscriptions: a durable, named interest in event types.
//!
//! How it fails: [`Invalid`] for a name, glob or policy that breaks a rule. Invariant: a checked
//! subscription has a name, at least one glob and a policy that ends.

use serde::{Deserialize, Serialize};

use crate::invalid::check_text;
use crate::{Glob, Globs, Invalid, Policy};

/// The longest name of a subscription or queue in bytes.
pub const NAME_BYTES_MAX: usize = 128;
/// The most globs of one subscription.
pub const GLOBS_MAX: usize = 100;

/// Where the jobs of a subscription go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum SinkKind {
    /// A handler in a process that registered one, or a `tail`.
    #[default]
    Handler,
    /// Signed HTTP requests to endpoints.
    Webhook,
    /// A Kafka topic.
    Kafka,
    /// A NATS JetStream subject.
    Nats,
    /// A RabbitMQ exchange.
    Rabbitmq,
    /// A Redis stream.
    Redis,
    /// An MQTT topic.
    Mqtt,
    /// A function in the same database.
    Sql,
    /// Clients that fetch over HTTP.
    Pull,
}

impl SinkKind {
    /// The word used in SQL, JSON and on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Handler => "handler",
            Self::Webhook => "webhook",
            Self::Kafka => "kafka",
            Self::Nats => "nats",
            Self::Rabbitmq => "rabbitmq",
            Self::Redis => "redis",
            Self::Mqtt => "mqtt",
            Self::Sql => "sql",
            Self::Pull => "pull",
        }
    }

    /// Whether events leave the instance here, so that only external types may go.
    #[must_use]
    pub fn is_external(self) -> bool {
        !matches!(self, Self::Handler | Self::Sql)
    }
}

/// Where the jobs of a subscription come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// The relay makes them for events that match.
    #[default]
    Events,
    /// Applications enqueue them: the subscription is a kind of jobs.
    Enqueue,
}

impl std::str::FromStr for SinkKind {
    type Err = Invalid;

    fn from_str(word: &str) -> Result<Self, Invalid> {
        let all = [
            Self::Handler,
            Self::Webhook,
            Self::Kafka,
            Self::Nats,
            Self::Rabbitmq,
            Self::Redis,
            Self::Mqtt,
            Self::Sql,
            Self::Pull,
        ];
        all.into_iter()
            .find(|sink| sink.as_str() == word)
            .ok_or_else(|| Invalid::new("sink", format!("`{word}` is no kind of sink")))
    }
}

/// What a subscription asks for.
///
/// ```
/// use postrider_core::Subscription;
/// let index = Subscription::new("search.index", ["corpus.**"])?.coalesce();
/// assert!(index.coalesce);
/// # Ok::<(), postrider_core::Invalid>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subscription {
    /// The unique name, such as `search.index`: letters, digits, `.`, `_`, `-`; at most 128 bytes.
    pub name: String,
    /// The types it wants, 1 to 100 globs; none for a kind of jobs.
    pub globs: Globs,
    /// Where its jobs come from. Defaults to events.
    #[serde(default)]
    pub source: Source,
    /// The tenant whose events it gets. Defaults to none, which means all.
    #[serde(default)]
    pub tenant: Option<String>,
    /// A PostgreSQL JSON path over the event (`$.type`, `$.subject`, `$.data.…`): the event is
    /// wanted when the first value it yields is neither false nor null. Defaults to none.
    #[serde(default)]
    pub filter: Option<String>,
    /// Where the jobs go. Defaults to a handler.
    #[serde(default)]
    pub sink: SinkKind,
    /// Whether, within one relay batch, one job for the latest event of each (tenant, subject)
    /// stands for all. Only for handlers that read current state. Defaults to false.
    #[serde(default)]
    pub coalesce: bool,
    /// How the jobs are run.
    #[serde(default)]
    pub policy: Policy,
    /// The version of this declaration, 1 or more: a lower one never overwrites. Defaults to 1.
    #[serde(default = "first_version")]
    pub version: i32,
}

fn first_version() -> i32 {
    1
}

impl Subscription {
    /// A subscription to `globs` with the default policy.
    ///
    /// # Errors
    /// [`Invalid`] when the name or a glob breaks its rules, or there is no glob.
    pub fn new<T: Into<String>>(
        name: impl Into<String>,
        globs: impl IntoIterator<Item = T>,
    ) -> Result<Self, Invalid> {
        let subscription = Self {
            name: name.into(),
            globs: Globs::parse(globs)?,
            source: Source::Events,
            tenant: None,
            filter: None,
            sink: SinkKind::Handler,
            coalesce: false,
            policy: Policy::default(),
            version: 1,
        };
        subscription.check()?;
        Ok(subscription)
    }

    /// Checks every field, for a subscription that came from outside.
    ///
    /// # Errors
    /// [`Invalid`] for the first field that breaks a rule.
    pub fn check(&self) -> Result<(), Invalid> {
        check_name("name", &self.name)?;
        match self.source {
            Source::Events if self.globs.is_empty() || self.globs.len() > GLOBS_MAX => {
                return Err(Invalid::new("globs", "a subscription has 1 to 100 globs"));
            }
            Source::Enqueue if !self.globs.is_empty() => {
                return Err(Invalid::new("globs", "a kind of jobs has none"));
            }
            Source::Events | Source::Enqueue => {}
        }
        if self.version < 1 {
            return Err(Invalid::new("version", "is below 1"));
        }
        if let Some(filter) = &self.filter {
            check_text("filter", filter, 4096)?;
        }
        self.policy.check()
    }

    /// Wants only the events of `tenant`.
    #[must_use]
    pub fn tenant(mut self, tenant: impl Into<String>) -> Self {
        self.tenant = Some(tenant.into());
        self
    }

    /// Wants only the events for which the JSON path yields neither false nor null first.
    #[must_use]
    pub fn filter(mut self, json_path: impl Into<String>) -> Self {
        self.filter = Some(json_path.into());
        self
    }

    /// Lets one job stand for all events of a subject within a relay batch.
    #[must_use]
    pub fn coalesce(mut self) -> Self {
        self.coalesce = true;
        self
    }

    /// Sets the policy.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Sets the version of the declaration; raise it when the declaration changes.
    #[must_use]
    pub fn version(mut self, version: i32) -> Self {
        self.version = version;
        self
    }

    /// The globs of this subscription and of `other`, without repeats.
    #[must_use]
    pub fn union_globs(&self, other: &Globs) -> Globs {
        Globs::new(self.globs.iter().chain(other.iter()).cloned().collect::<Vec<Glob>>())
    }
}

/// Refuses a name of a subscription or queue that is empty, too long or oddly spelled.
pub(crate) fn check_name(field: &'static str, name: &str) -> Result<(), Invalid> {
    check_text(field, name, NAME_BYTES_MAX)?;
    if name.chars().all(|c| c.is_ascii_alphanumeric() || ".-_".contains(c)) {
        return Ok(());
    }
    let problem = format!("`{name}` holds characters other than letters, digits, `.`, `_`, `-`");
    Err(Invalid::new(field, problem))
}
