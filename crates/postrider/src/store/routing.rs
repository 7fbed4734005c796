//! Types, subscriptions and the routes between them.
//!
//! How it fails: the database's error; a failed change has changed nothing. Invariants: every
//! change holds the routing lock alone, expands globs with the one matcher of `postrider-core`, and
//! counts the routing version up by one when, and only when, something changed.

use deadpool_postgres::Transaction;
use postrider_core::{
    Backoff, EventType, Exposure, Globs, Policy, Priority, SinkKind, Source, Subscription, TypeName,
};
use time::OffsetDateTime;
use tokio_postgres::Row;
use tokio_postgres::types::Json;
use uuid::Uuid;

use super::{Param, Store};
use crate::{Error, ErrorKind};

/// Most live subscriptions: an event that all of them want makes one fan-out transaction, which is
/// bounded by this number of jobs.
const SUBSCRIPTIONS_MAX: usize = 10_000;

/// A declared type as it is stored.
#[derive(Debug, Clone)]
pub(crate) struct StoredType {
    pub(crate) name: TypeName,
    pub(crate) description: String,
    pub(crate) exposure: Exposure,
    pub(crate) version: i32,
    pub(crate) declared_at: OffsetDateTime,
}

/// A live subscription as it is stored.
#[derive(Debug, Clone)]
pub(crate) struct StoredSubscription {
    pub(crate) id: i32,
    /// What it declares; its globs are the declared ones.
    pub(crate) declared: Subscription,
    /// The globs in force.
    pub(crate) globs: Globs,
    /// What live sessions register.
    pub(crate) registered: Globs,
    pub(crate) created_at: OffsetDateTime,
    pub(crate) paused_at: Option<OffsetDateTime>,
    pub(crate) filter_error: Option<String>,
}

impl StoredSubscription {
    /// Whether events of `declared` go to this subscription by type and exposure.
    pub(crate) fn wants(&self, declared: &StoredType) -> bool {
        self.globs.matches(&declared.name) && !self.leaves_out(declared)
    }

    /// Whether a type that its globs match is kept from it because it is internal.
    pub(crate) fn leaves_out(&self, declared: &StoredType) -> bool {
        self.globs.matches(&declared.name)
            && self.declared.sink.is_external()
            && declared.exposure == Exposure::Internal
    }
}

/// What a declaration of a process came to.
#[derive(Debug, Clone, Default)]
pub(crate) struct Declared {
    /// The ids of the subscriptions, in the order they were given.
    pub(crate) subscription_ids: Vec<i32>,
    /// Globs that match no declared type: `(subscription, glob)`.
    pub(crate) unmatched: Vec<(String, String)>,
    /// The types that are new or changed.
    pub(crate) changed_types: Vec<String>,
}

impl Store {
    /// Declares types and subscriptions in one change. With a session, remembers which globs it
    /// registers, so that a newer version of the code does not narrow them while it lives.
    pub(crate) async fn declare(
        &self,
        types: &[EventType],
        subscriptions: &[Subscription],
        session: Option<Uuid>,
    ) -> Result<Declared, Error> {
        let mut connection = self.connection().await?;
        let transaction = super::read_committed(&mut connection).await?;
        self.lock_routing(&transaction).await?;
        let mut change = Change::default();
        for declared in types {
            self.declare_type(&transaction, declared, &mut change).await?;
        }
        let mut declared = Declared::default();
        for subscription in subscriptions {
            let id = self.put_subscription(&transaction, subscription, &mut change).await?;
            declared.subscription_ids.push(id);
            if let Some(session) = session {
                let globs = subscription.globs.to_texts();
                let params: &[Param<'_>] = &[&session, &id, &globs];
                self.query_on(&transaction, &self.statements.registration_put, params).await?;
            }
        }
        declared.changed_types.clone_from(&change.types);
        let (types, stored) = self.reroute(&transaction, change).await?;
        transaction.commit().await?;
        declared.unmatched = unmatched(&types, &stored, &declared.subscription_ids);
        Ok(declared)
    }

    /// Creates a subscription that must not exist yet and whose globs must each match a type.
    pub(crate) async fn create_subscription(&self, new: &Subscription) -> Result<i32, Error> {
        let mut connection = self.connection().await?;
        let transaction = super::read_committed(&mut connection).await?;
        self.lock_routing(&transaction).await?;
        let existing = self.subscriptions_on(&transaction).await?;
        if existing.iter().any(|known| known.declared.name == new.name) {
            let message = format!("there is a subscription `{}` already", new.name);
            return Err(Error::new(ErrorKind::Conflict, message));
        }
        let mut change = Change::default();
        let id = self.put_subscription(&transaction, new, &mut change).await?;
        let (types, stored) = self.reroute(&transaction, change).await?;
        if let Some((_, glob)) = unmatched(&types, &stored, &[id]).first() {
            let message = format!("the glob `{glob}` matches no declared type");
            return Err(Error::new(ErrorKind::Invalid, message)
                .with_field("globs")
                .with_hint("declare the type first: postrider types declare NAME"));
        }
        transaction.commit().await?;
        Ok(id)
    }

    /// Deletes a subscription. Returns whether there was one.
    pub(crate) async fn delete_subscription(&self, name: &str) -> Result<bool, Error> {
        let mut connection = self.connection().await?;
        let transaction = super::read_committed(&mut connection).await?;
        self.lock_routing(&transaction).await?;
        let rows =
            self.query_on(&transaction, &self.statements.subscription_delete, &[&name]).await?;
        let Some(row) = rows.first() else { return Ok(false) };
        let change = Change { types: Vec::new(), subscriptions: vec![row.try_get("id")?] };
        self.reroute(&transaction, change).await?;
        transaction.commit().await?;
        Ok(true)
    }

    /// Pauses or resumes a subscription. Returns whether there is one.
    pub(crate) async fn pause_subscription(&self, name: &str, pause: bool) -> Result<bool, Error> {
        let rows = self.query(&self.statements.subscription_pause, &[&name, &pause]).await?;
        Ok(!rows.is_empty())
    }

    /// Brings the globs in force back to what is declared or still registered by a live session.
    pub(crate) async fn narrow_globs(&self) -> Result<(), Error> {
        let due = |stored: &StoredSubscription| {
            stored.globs != stored.declared.union_globs(&stored.registered)
        };
        if !self.subscriptions().await?.iter().any(due) {
            return Ok(());
        }
        let mut connection = self.connection().await?;
        let transaction = super::read_committed(&mut connection).await?;
        self.lock_routing(&transaction).await?;
        self.reroute(&transaction, Change::default()).await?;
        transaction.commit().await?;
        Ok(())
    }

    /// The declared types, by name.
    pub(crate) async fn types(&self) -> Result<Vec<StoredType>, Error> {
        self.query(&self.statements.type_list, &[]).await?.iter().map(stored_type).collect()
    }

    /// The live subscriptions, by name.
    pub(crate) async fn subscriptions(&self) -> Result<Vec<StoredSubscription>, Error> {
        let rows = self.query(&self.statements.subscription_list, &[]).await?;
        rows.iter().map(stored_subscription).collect()
    }

    /// Waits for the routing lock, for twenty seconds at most.
    pub(super) async fn lock_routing(&self, transaction: &Transaction<'_>) -> Result<(), Error> {
        let locked = self.query_on(transaction, &self.statements.routing_lock, &[]).await;
        locked.map(|_| ()).map_err(|error| match error.sqlstate() {
            Some("55P03") => {
                let message = "somebody else changes or uses types and subscriptions for too long";
                Error::new(ErrorKind::Busy, message)
                    .with_hint("try again; `postrider doctor` names who holds a transaction open")
                    .with_source(error)
            }
            _ => error,
        })
    }

    async fn subscriptions_on(
        &self,
        transaction: &Transaction<'_>,
    ) -> Result<Vec<StoredSubscription>, Error> {
        let rows = self.query_on(transaction, &self.statements.subscription_list, &[]).await?;
        rows.iter().map(stored_subscription).collect()
    }

    async fn declare_type(
        &self,
        transaction: &Transaction<'_>,
        declared: &EventType,
        change: &mut Change,
    ) -> Result<(), Error> {
        let (name, exposure) = (declared.name.as_str(), declared.exposure.as_str());
        let params: &[Param<'_>] = &[&name, &declared.description, &exposure, &declared.version];
        let rows = self.query_on(transaction, &self.statements.type_declare, params).await?;
        if !rows.is_empty() {
            change.types.push(name.to_owned());
        }
        Ok(())
    }

    /// Inserts or updates one subscription and returns its id.
    async fn put_subscription(
        &self,
        transaction: &Transaction<'_>,
        new: &Subscription,
        change: &mut Change,
    ) -> Result<i32, Error> {
        new.check()?;
        let known = self.subscriptions_on(transaction).await?;
        let count = known.len();
        let known = known.iter().find(|known| known.declared.name == new.name);
        if known.is_none() && count >= SUBSCRIPTIONS_MAX {
            let message = format!("there are {count} subscriptions, and no more may be");
            return Err(Error::new(ErrorKind::Conflict, message)
                .with_hint("delete some, or let one subscription stand for many receivers"));
        }
        if let Some(known) = known.filter(|known| known.declared.source != new.source) {
            return Err(other_source(&known.declared));
        }
        let (globs, sink) = (new.globs.to_texts(), new.sink.as_str());
        let (backoff, policy) = (Json(&new.policy.backoff), &new.policy);
        let priority = policy.priority.number();
        let statement = match known {
            Some(_) => &self.statements.subscription_update,
            None => &self.statements.subscription_insert,
        };
        let first: Param<'_> = match known {
            Some(known) => &known.id,
            None => &new.name,
        };
        let params: &[Param<'_>] = &[
            first,
            &globs,
            &new.tenant,
            &new.filter,
            &sink,
            &new.coalesce,
            &policy.queue,
            &policy.max_attempts,
            &backoff,
            &policy.timeout_ms,
            &priority,
            &new.version,
        ];
        let rows = self
            .query_on(transaction, statement, params)
            .await
            .map_err(|error| refused_filter(error, new.filter.as_deref()))?;
        match (rows.first(), known) {
            (Some(row), _) => {
                let id = row.try_get("id")?;
                change.subscriptions.push(id);
                Ok(id)
            }
            (None, Some(known)) => Ok(known.id),
            (None, None) => Err(Error::new(ErrorKind::Bug, "an insert returned no row")),
        }
    }

    /// Sets the globs in force, expands what changed into routes, and counts the change.
    async fn reroute(
        &self,
        transaction: &Transaction<'_>,
        mut change: Change,
    ) -> Result<(Vec<StoredType>, Vec<StoredSubscription>), Error> {
        let rows = self.query_on(transaction, &self.statements.type_list, &[]).await?;
        let types = rows.iter().map(stored_type).collect::<Result<Vec<_>, _>>()?;
        let mut stored = self.subscriptions_on(transaction).await?;
        for subscription in &mut stored {
            let globs = subscription.declared.union_globs(&subscription.registered);
            let params: &[Param<'_>] = &[&subscription.id, &globs.to_texts()];
            let statement = &self.statements.subscription_globs;
            if globs != subscription.globs
                && !self.query_on(transaction, statement, params).await?.is_empty()
            {
                change.subscriptions.push(subscription.id);
                subscription.globs = globs;
            }
        }
        if change.is_empty() {
            return Ok((types, stored));
        }
        let params: &[Param<'_>] = &[&change.types, &change.subscriptions];
        self.query_on(transaction, &self.statements.route_clear, params).await?;
        let (route_types, route_ids) = change.routes(&types, &stored);
        let params: &[Param<'_>] = &[&route_types, &route_ids];
        self.query_on(transaction, &self.statements.route_insert, params).await?;
        self.query_on(transaction, &self.statements.routing_bump, &[]).await?;
        self.query_on(transaction, &self.statements.bell_ring, &[&"changed"]).await?;
        Ok((types, stored))
    }
}

/// Which types and subscriptions a transaction changed.
#[derive(Debug, Default)]
struct Change {
    types: Vec<String>,
    subscriptions: Vec<i32>,
}

impl Change {
    fn is_empty(&self) -> bool {
        self.types.is_empty() && self.subscriptions.is_empty()
    }

    /// The routes of everything that changed, as two columns.
    fn routes<'a>(
        &self,
        types: &'a [StoredType],
        subscriptions: &[StoredSubscription],
    ) -> (Vec<&'a str>, Vec<i32>) {
        let changed: std::collections::HashSet<&str> =
            self.types.iter().map(String::as_str).collect();
        types
            .iter()
            .flat_map(|declared| subscriptions.iter().map(move |wanting| (declared, wanting)))
            .filter(|(declared, wanting)| {
                changed.contains(declared.name.as_str()) || self.subscriptions.contains(&wanting.id)
            })
            .filter(|(declared, wanting)| wanting.wants(declared))
            .map(|(declared, wanting)| (declared.name.as_str(), wanting.id))
            .unzip()
    }
}

/// Globs of the given subscriptions that match no declared type.
fn unmatched(
    types: &[StoredType],
    stored: &[StoredSubscription],
    ids: &[i32],
) -> Vec<(String, String)> {
    stored
        .iter()
        .filter(|subscription| ids.contains(&subscription.id))
        .flat_map(|subscription| {
            let name = &subscription.declared.name;
            subscription.declared.globs.iter().map(move |glob| (name, glob))
        })
        .filter(|(_, glob)| !types.iter().any(|declared| glob.matches(&declared.name)))
        .map(|(name, glob)| (name.clone(), glob.as_str().to_owned()))
        .collect()
}

/// A name stands for a subscription or for a kind, and for the same one for ever.
fn other_source(known: &Subscription) -> Error {
    let is = match known.source {
        Source::Events => "a subscription to events, so it is no kind of jobs",
        Source::Enqueue => "a kind of jobs, so it is no subscription to events",
    };
    Error::new(ErrorKind::Conflict, format!("`{}` is {is}", known.name))
        .with_hint("choose another name, or delete the one that is there")
}

/// A filter that PostgreSQL cannot read is the caller's mistake.
fn refused_filter(error: Error, filter: Option<&str>) -> Error {
    match (error.sqlstate(), filter) {
        (Some("42601" | "22P02" | "2201B" | "42704"), Some(filter)) => {
            let message = format!("the filter `{filter}` is no JSON path: {error}");
            Error::new(ErrorKind::Invalid, message)
                .with_field("filter")
                .with_hint("it looks like $.data.amount > 100")
                .with_source(error)
        }
        _ => error,
    }
}

fn stored_type(row: &Row) -> Result<StoredType, Error> {
    let exposure: &str = row.try_get("exposure")?;
    Ok(StoredType {
        name: TypeName::parse(row.try_get::<_, String>("type")?)?,
        description: row.try_get("description")?,
        exposure: exposure.parse()?,
        version: row.try_get("version")?,
        declared_at: row.try_get("declared_at")?,
    })
}

fn stored_subscription(row: &Row) -> Result<StoredSubscription, Error> {
    let sink: &str = row.try_get("sink")?;
    let Json(backoff): Json<Backoff> = row.try_get("backoff")?;
    let priority = match row.try_get::<_, i16>("priority")? {
        1 => Priority::High,
        2 => Priority::Normal,
        3 => Priority::Low,
        _ => Priority::Bulk,
    };
    let globs = |column: &str| -> Result<Globs, Error> {
        Ok(Globs::parse(row.try_get::<_, Vec<String>>(column)?)?)
    };
    Ok(StoredSubscription {
        id: row.try_get("id")?,
        declared: Subscription {
            name: row.try_get("name")?,
            globs: globs("declared_globs")?,
            source: match row.try_get("source")? {
                "enqueue" => Source::Enqueue,
                _ => Source::Events,
            },
            tenant: row.try_get("tenant")?,
            filter: row.try_get("filter")?,
            sink: sink.parse::<SinkKind>()?,
            coalesce: row.try_get("coalesces")?,
            policy: Policy {
                queue: row.try_get("queue")?,
                max_attempts: row.try_get("max_attempts")?,
                backoff,
                timeout_ms: row.try_get("timeout_ms")?,
                priority,
            },
            version: row.try_get("version")?,
        },
        globs: globs("globs")?,
        registered: globs("registered_globs")?,
        created_at: row.try_get("created_at")?,
        paused_at: row.try_get("paused_at")?,
        filter_error: row.try_get("filter_error")?,
    })
}
