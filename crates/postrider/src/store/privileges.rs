//! What the role of an engine must be allowed to do.
//!
//! How it fails: [`ErrorKind::Configuration`] that names every missing privilege and says how to
//! grant it. Invariant: an engine that has started may run each of its statements, until somebody
//! takes a privilege away.

use super::Store;
use crate::{Error, ErrorKind};

impl Store {
    /// Refuses a role that lacks a privilege.
    pub(crate) async fn check_privileges(&self) -> Result<(), Error> {
        let rows = self.query(&self.statements.privileges_missing, &[]).await?;
        let Some(first) = rows.first() else { return Ok(()) };
        let role: String = first.try_get("role")?;
        let (mut lacking, mut grants) = (Vec::new(), Vec::new());
        for row in &rows {
            let (object, privileges): (&str, &str) =
                (row.try_get("object")?, row.try_get("privileges")?);
            lacking.push(format!("{privileges} on {object}"));
            grants.push(format!("grant {privileges} on {object} to {role}"));
        }
        let message = format!("the role {role} lacks privileges: {}", lacking.join("; "));
        Err(Error::new(ErrorKind::Configuration, message)
            .with_hint(format!("as the owner of the schema, run: {}", grants.join("; "))))
    }
}
