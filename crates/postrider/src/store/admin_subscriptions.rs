//! What administration asks about subscriptions beside their declaration.
//!
//! How it fails: the database's error. Invariant: counting ends at [`COUNT_MAX`].

use std::collections::HashMap;

use super::{Param, Store};
use crate::Error;
use crate::admin::{COUNT_MAX, Count, Lag};

impl Store {
    /// What waits for each live subscription, by its id.
    pub(crate) async fn lags(&self) -> Result<HashMap<i32, Lag>, Error> {
        let params: &[Param<'_>] = &[&COUNT_MAX, &self.clock.shift()];
        let rows = self.query(&self.statements.subscription_lag, params).await?;
        rows.iter()
            .map(|row| {
                let lag = Lag {
                    waiting: Count::of(row.try_get("jobs")?),
                    oldest_age_ms: row.try_get("oldest_age_ms")?,
                };
                Ok((row.try_get("id")?, lag))
            })
            .collect()
    }
}
