//! Kinds of jobs: declare, look at. They are paused, resumed and deleted as subscriptions.
//!
//! How it fails: `Conflict` for the name of a subscription to events. Invariant: a lower version
//! never overwrites.

use serde::Serialize;

use super::{Admin, SubscriptionInfo};
use crate::{Enqueued, Error, Kind, NewJob, Recorder, Source};

/// What declaring a kind came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "result", content = "stands_at")]
pub enum KindDeclared {
    /// It is new, or changed.
    Declared,
    /// It was declared like this.
    Unchanged,
    /// A higher version stands, which is given; nothing was changed.
    NewerStands(i32),
}

impl Admin {
    /// Declares a kind, so that its jobs can be enqueued.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Invalid`] for a policy out of range; [`crate::ErrorKind::Conflict`] when
    /// a subscription to events has the name.
    pub async fn declare_kind<A>(&self, kind: Kind<A>) -> Result<KindDeclared, Error> {
        let declared = kind.into_subscription();
        let before = self.kind(&declared.name).await?.map(|info| info.declared);
        match before {
            Some(before) if before.version > declared.version => {
                return Ok(KindDeclared::NewerStands(before.version));
            }
            Some(before) if before == declared => return Ok(KindDeclared::Unchanged),
            _ => {}
        }
        self.store.declare(&[], &[declared], None).await?;
        Ok(KindDeclared::Declared)
    }

    /// The kinds, by name.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Database`] or [`crate::ErrorKind::Unreachable`].
    pub async fn kinds(&self) -> Result<Vec<SubscriptionInfo>, Error> {
        let all = self.subscriptions().await?.into_iter();
        Ok(all.filter(|info| info.declared.source == Source::Enqueue).collect())
    }

    /// The kind of this name, if there is one.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Database`] or [`crate::ErrorKind::Unreachable`].
    pub async fn kind(&self, name: &str) -> Result<Option<SubscriptionInfo>, Error> {
        Ok(self.kinds().await?.into_iter().find(|info| info.declared.name == name))
    }

    /// Enqueues a job in a transaction of its own.
    ///
    /// # Errors
    /// As [`Recorder::enqueue`].
    pub async fn enqueue(&self, job: &NewJob) -> Result<Enqueued, Error> {
        let mut link = self.store.connection().await?;
        // Unless it is answered, the connection does not go back to the pool.
        let enqueued = Recorder::new(&self.store.schema).enqueue(link.lend(), job).await;
        link.is_given_back();
        enqueued
    }
}
