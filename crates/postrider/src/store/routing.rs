//! Types, subscriptions and the routes between them.
//!
//! How it fails: the database's error; a failed change has changed nothing. Invariants: every
//! change holds the routing lock alone, expands globs with the one matcher of `postrider-core`, and
//! counts the routing version up by one when, and only when, something changed.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use postrider_core::{
    Backoff, EventType, Exposure, Glob, Globs, Policy, Priority, SinkKind, Source, Subscription,
    TypeName,
};
use time::OffsetDateTime;
use tokio_postgres::Row;
use tokio_postgres::types::Json;
use uuid::Uuid;

use super::{LinkTransaction, Param, Store};
use crate::{Error, ErrorKind};

/// Most live subscriptions: an event that all of them want makes one fan-out transaction, which is
/// bounded by this number of jobs.
const SUBSCRIPTIONS_MAX: usize = 10_000;
/// As many types or routes make a statement, so that its size does not grow with theirs; those of
/// one subscription stay together.
const CHUNK: usize = 5_000;

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
    /// The types that its globs match, in order of their names, as `types` must be: those whose
    /// events it gets, and those that are kept from it because they are internal.
    pub(crate) fn split<'a>(
        &self,
        types: &'a [StoredType],
    ) -> (Vec<&'a StoredType>, Vec<&'a StoredType>) {
        let external = self.declared.sink.is_external();
        matched(types, &self.globs)
            .into_iter()
            .partition(|declared| !external || declared.exposure != Exposure::Internal)
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
        let transaction = connection.begin().await?;
        self.lock_routing(&transaction).await?;
        let mut change = Change::default();
        self.declare_types(&transaction, types, &mut change).await?;
        let mut declared = Declared::default();
        let known = match subscriptions.is_empty() {
            true => Vec::new(),
            false => self.subscriptions_on(&transaction).await?,
        };
        for subscription in subscriptions {
            let id = self.put_subscription(&transaction, subscription, &known, &mut change).await?;
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
        let transaction = connection.begin().await?;
        self.lock_routing(&transaction).await?;
        let existing = self.subscriptions_on(&transaction).await?;
        if existing.iter().any(|known| known.declared.name == new.name) {
            let message = format!("there is a subscription `{}` already", new.name);
            return Err(Error::new(ErrorKind::Conflict, message));
        }
        let mut change = Change::default();
        let id = self.put_subscription(&transaction, new, &existing, &mut change).await?;
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
        let transaction = connection.begin().await?;
        self.lock_routing(&transaction).await?;
        let rows =
            self.query_on(&transaction, &self.statements.subscription_delete, &[&name]).await?;
        let Some(row) = rows.first() else { return Ok(false) };
        let change =
            Change { types: Vec::new(), subscriptions: [row.try_get("id")?].into(), created: 0 };
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
        let transaction = connection.begin().await?;
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
    pub(super) async fn lock_routing(
        &self,
        transaction: &LinkTransaction<'_>,
    ) -> Result<(), Error> {
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
        transaction: &LinkTransaction<'_>,
    ) -> Result<Vec<StoredSubscription>, Error> {
        let rows = self.query_on(transaction, &self.statements.subscription_list, &[]).await?;
        rows.iter().map(stored_subscription).collect()
    }

    /// Declares types, in few statements however many they are.
    async fn declare_types(
        &self,
        transaction: &LinkTransaction<'_>,
        types: &[EventType],
        change: &mut Change,
    ) -> Result<(), Error> {
        // One statement cannot declare a type twice: of two declarations the higher version
        // counts, as it would one after the other.
        let mut distinct: BTreeMap<&str, &EventType> = BTreeMap::new();
        for declared in types {
            let one = distinct.entry(declared.name.as_str()).or_insert(declared);
            if declared.version >= one.version {
                *one = declared;
            }
        }
        let distinct: Vec<&EventType> = distinct.into_values().collect();
        for chunk in distinct.chunks(CHUNK) {
            let names: Vec<&str> = chunk.iter().map(|declared| declared.name.as_str()).collect();
            let descriptions: Vec<&str> =
                chunk.iter().map(|declared| declared.description.as_str()).collect();
            let exposures: Vec<&str> =
                chunk.iter().map(|declared| declared.exposure.as_str()).collect();
            let versions: Vec<i32> = chunk.iter().map(|declared| declared.version).collect();
            let params: &[Param<'_>] = &[&names, &descriptions, &exposures, &versions];
            for row in self.query_on(transaction, &self.statements.type_declare, params).await? {
                change.types.push(row.try_get("type")?);
            }
        }
        Ok(())
    }

    /// Inserts the routes of everything that changed, in statements of a bounded size.
    async fn insert_routes(
        &self,
        transaction: &LinkTransaction<'_>,
        change: &Change,
        types: &[StoredType],
        subscriptions: &[StoredSubscription],
    ) -> Result<(), Error> {
        let changed: HashSet<&str> = change.types.iter().map(String::as_str).collect();
        let (mut names, mut ids): (Vec<&str>, Vec<i32>) = (Vec::new(), Vec::new());
        for wanting in subscriptions {
            let whole = change.subscriptions.contains(&wanting.id);
            for declared in wanting.split(types).0 {
                if whole || changed.contains(declared.name.as_str()) {
                    names.push(declared.name.as_str());
                    ids.push(wanting.id);
                }
            }
            if names.len() >= CHUNK {
                let params: &[Param<'_>] = &[&names, &ids];
                self.query_on(transaction, &self.statements.route_insert, params).await?;
                names.clear();
                ids.clear();
            }
        }
        let params: &[Param<'_>] = &[&names, &ids];
        self.query_on(transaction, &self.statements.route_insert, params).await?;
        Ok(())
    }

    /// Inserts or updates one subscription and returns its id. `existing` are those that there
    /// were before this change.
    async fn put_subscription(
        &self,
        transaction: &LinkTransaction<'_>,
        new: &Subscription,
        existing: &[StoredSubscription],
        change: &mut Change,
    ) -> Result<i32, Error> {
        new.check()?;
        let known = existing.iter().find(|known| known.declared.name == new.name);
        let count = existing.len() + change.created;
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
                change.subscriptions.insert(id);
                change.created += usize::from(known.is_none());
                Ok(id)
            }
            (None, Some(known)) => Ok(known.id),
            (None, None) => Err(Error::new(ErrorKind::Bug, "an insert returned no row")),
        }
    }

    /// Sets the globs in force, expands what changed into routes, and counts the change.
    async fn reroute(
        &self,
        transaction: &LinkTransaction<'_>,
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
                change.subscriptions.insert(subscription.id);
                subscription.globs = globs;
            }
        }
        if change.is_empty() {
            return Ok((types, stored));
        }
        let changed: Vec<i32> = change.subscriptions.iter().copied().collect();
        let params: &[Param<'_>] = &[&change.types, &changed];
        self.query_on(transaction, &self.statements.route_clear, params).await?;
        self.insert_routes(transaction, &change, &types, &stored).await?;
        self.query_on(transaction, &self.statements.routing_bump, &[]).await?;
        self.query_on(transaction, &self.statements.bell_ring, &[&"changed"]).await?;
        Ok((types, stored))
    }
}

/// Which types and subscriptions a transaction changed.
#[derive(Debug, Default)]
struct Change {
    types: Vec<String>,
    subscriptions: HashSet<i32>,
    /// How many of the subscriptions are new.
    created: usize,
}

impl Change {
    fn is_empty(&self) -> bool {
        self.types.is_empty() && self.subscriptions.is_empty()
    }
}

/// The types that some of the globs match, each once. `types` are in order of their names, so only
/// those are looked at that begin as a glob does.
fn matched<'a>(types: &'a [StoredType], globs: &Globs) -> Vec<&'a StoredType> {
    let indexes: BTreeSet<usize> = globs.iter().flat_map(|glob| matched_by(types, glob)).collect();
    indexes.into_iter().map(|index| &types[index]).collect()
}

/// The places of the types that a glob matches.
fn matched_by<'a>(types: &'a [StoredType], glob: &'a Glob) -> impl Iterator<Item = usize> + 'a {
    let wildcard = glob.as_str().find('*').unwrap_or(glob.as_str().len());
    // `a.**` matches `a` too, so the dot before the wildcard is not asked for.
    let prefix = glob.as_str()[..wildcard].trim_end_matches('.');
    let first = types.partition_point(|declared| declared.name.as_str() < prefix);
    (first..types.len())
        .take_while(move |index| types[*index].name.as_str().starts_with(prefix))
        .filter(move |index| glob.matches(&types[*index].name))
}

/// Globs of the given subscriptions that match no declared type.
fn unmatched(
    types: &[StoredType],
    stored: &[StoredSubscription],
    ids: &[i32],
) -> Vec<(String, String)> {
    let ids: HashSet<i32> = ids.iter().copied().collect();
    stored
        .iter()
        .filter(|subscription| ids.contains(&subscription.id))
        .flat_map(|subscription| {
            let name = &subscription.declared.name;
            subscription.declared.globs.iter().map(move |glob| (name, glob))
        })
        .filter(|(_, glob)| matched_by(types, glob).next().is_none())
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
