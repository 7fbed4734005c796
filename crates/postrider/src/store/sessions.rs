//! What a process asks of the database about itself and the others.
//!
//! How it fails: the database's error. Invariant: a session that has ended never lives again.

use std::time::Duration;

use uuid::Uuid;

use super::{Param, Store, micros};
use crate::Error;

impl Store {
    /// Opens a session of `lease` length.
    pub(crate) async fn open_session(
        &self,
        id: Uuid,
        name: &str,
        runs_relay: bool,
        lease: Duration,
    ) -> Result<(), Error> {
        let version = env!("CARGO_PKG_VERSION");
        let params: &[Param<'_>] = &[&id, &name, &version, &runs_relay, &micros(lease)];
        self.query(&self.statements.session_open, params).await?;
        Ok(())
    }

    /// Renews a session. Returns the jobs of it that were asked to stop, or `None` when the session
    /// was taken for lost.
    pub(crate) async fn renew_session(
        &self,
        id: Uuid,
        lease: Duration,
    ) -> Result<Option<Vec<i64>>, Error> {
        let rows = self.query(&self.statements.session_renew, &[&id, &micros(lease)]).await?;
        rows.first().map(|row| Ok(row.try_get("cancelled")?)).transpose()
    }

    /// Whether a session has not ended.
    pub(crate) async fn session_is_live(&self, id: Uuid) -> Result<bool, Error> {
        let rows = self.query(&self.statements.session_live, &[&id]).await?;
        rows.first().map_or(Ok(false), |row| Ok(row.try_get("live")?))
    }

    /// Ends a session in order.
    pub(crate) async fn close_session(&self, id: Uuid) -> Result<(), Error> {
        self.query(&self.statements.session_close, &[&id]).await?;
        Ok(())
    }

    /// Ends the sessions whose lease ran out; returns their names.
    pub(crate) async fn bury_sessions(&self) -> Result<Vec<String>, Error> {
        let rows = self.query(&self.statements.session_bury, &[]).await?;
        rows.iter().map(|row| Ok(row.try_get("name")?)).collect()
    }

    /// Whether another relay may have died lately of an event, and which relays on this host are
    /// open and not suspect so far. `lease` is how long sessions live.
    pub(crate) async fn other_relays(
        &self,
        id: Uuid,
        lease: Duration,
    ) -> Result<(bool, Vec<(Uuid, String)>), Error> {
        let rows = self.query(&self.statements.session_others, &[&id, &micros(lease)]).await?;
        let Some(row) = rows.first() else { return Ok((false, Vec::new())) };
        let ids: Vec<Uuid> = row.try_get("neighbour_ids")?;
        let names: Vec<String> = row.try_get("neighbour_names")?;
        Ok((row.try_get("suspect")?, ids.into_iter().zip(names).collect()))
    }
}
