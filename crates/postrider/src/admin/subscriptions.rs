//! Subscriptions: create, look at, pause, resume, delete.
//!
//! How it fails: [`ErrorKind::NotFound`] for a name that nobody has, [`ErrorKind::Conflict`] for
//! one that is taken, [`ErrorKind::Invalid`] for a glob or filter that cannot work. Invariant: a
//! paused subscription keeps its jobs waiting, a deleted one has them cancelled.

use serde::Serialize;
use time::OffsetDateTime;

use super::{Admin, Count};
use crate::store::{StoredSubscription, StoredType};
use crate::{Error, ErrorKind, Globs, Subscription};

/// A live subscription and how it does.
#[derive(Debug, Clone, Serialize)]
pub struct SubscriptionInfo {
    /// What it declares; its globs are the declared ones.
    #[serde(flatten)]
    pub declared: Subscription,
    /// The globs in force: the declared ones, and during a rolling deploy what other processes
    /// that live still register.
    pub globs_in_force: Globs,
    /// The declared types that go to it.
    pub types: Vec<String>,
    /// The declared types that its globs match and that it does not get, because they are internal
    /// and its sink is not.
    pub left_out: Vec<String>,
    /// When it was created: it gets the events that were owed then, and all later ones.
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
    /// Since when it is paused, if it is.
    #[serde(with = "time::serde::rfc3339::option")]
    pub paused_at: Option<OffsetDateTime>,
    /// The last error of its filter, until the filter is changed.
    pub filter_error: Option<String>,
    /// What waits for it.
    pub lag: Lag,
}

/// What waits for a subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Lag {
    /// Pending jobs, whether due or not.
    pub waiting: Count,
    /// How long the first of them has been due, in milliseconds; `None` when none is due.
    pub oldest_age_ms: Option<i64>,
}

impl Admin {
    /// Creates a subscription. It gets the events that are owed when this commits, and all later
    /// ones.
    ///
    /// # Errors
    /// [`ErrorKind::Conflict`] when the name is taken; [`ErrorKind::Invalid`] when a glob matches
    /// no declared type, the filter is no JSON path, or a value is out of range.
    pub async fn create_subscription(&self, new: &Subscription) -> Result<SubscriptionInfo, Error> {
        self.store.create_subscription(new).await?;
        self.subscription(&new.name).await?.ok_or_else(|| missing(&new.name))
    }

    /// The live subscriptions, by name.
    ///
    /// # Errors
    /// [`ErrorKind::Database`] or [`ErrorKind::Unreachable`].
    pub async fn subscriptions(&self) -> Result<Vec<SubscriptionInfo>, Error> {
        let types = self.store.types().await?;
        let stored = self.store.subscriptions().await?;
        let lags = self.store.lags().await?;
        let none = Lag { waiting: Count::of(0), oldest_age_ms: None };
        let info = stored.into_iter().map(|stored| {
            let lag = lags.get(&stored.id).copied().unwrap_or(none);
            info(stored, &types, lag)
        });
        Ok(info.collect())
    }

    /// The live subscription of this name, if there is one.
    ///
    /// # Errors
    /// [`ErrorKind::Database`] or [`ErrorKind::Unreachable`].
    pub async fn subscription(&self, name: &str) -> Result<Option<SubscriptionInfo>, Error> {
        let all = self.subscriptions().await?;
        Ok(all.into_iter().find(|info| info.declared.name == name))
    }

    /// Pauses a subscription: its jobs wait, running ones finish. Pausing twice changes nothing.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] when there is none of this name.
    pub async fn pause_subscription(&self, name: &str) -> Result<(), Error> {
        self.found(self.store.pause_subscription(name, true).await?, name)
    }

    /// Lets a paused subscription go on.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] when there is none of this name.
    pub async fn resume_subscription(&self, name: &str) -> Result<(), Error> {
        self.found(self.store.pause_subscription(name, false).await?, name)?;
        self.store.ring("changed").await
    }

    /// Deletes a subscription: it gets no more events, and its waiting jobs are cancelled by the
    /// maintenance of a running engine. Its name is free again at once.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] when there is none of this name.
    pub async fn delete_subscription(&self, name: &str) -> Result<(), Error> {
        self.found(self.store.delete_subscription(name).await?, name)
    }

    fn found(&self, found: bool, name: &str) -> Result<(), Error> {
        if found { Ok(()) } else { Err(missing(name)) }
    }
}

fn missing(name: &str) -> Error {
    Error::new(ErrorKind::NotFound, format!("there is no subscription `{name}`"))
        .with_hint("see: postrider subscriptions list")
}

fn info(stored: StoredSubscription, types: &[StoredType], lag: Lag) -> SubscriptionInfo {
    let (wanted, left_out) = stored.split(types);
    let names = |types: Vec<&StoredType>| {
        types.into_iter().map(|declared| declared.name.as_str().to_owned()).collect()
    };
    SubscriptionInfo {
        types: names(wanted),
        left_out: names(left_out),
        declared: stored.declared,
        globs_in_force: stored.globs,
        created_at: stored.created_at,
        paused_at: stored.paused_at,
        filter_error: stored.filter_error,
        lag,
    }
}
