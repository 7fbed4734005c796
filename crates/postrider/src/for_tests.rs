//! What our own tests need to see of the inside. No part of the public interface.
//!
//! How it fails: it does not. Invariant: it only shows, it changes nothing.

use tokio_postgres::types::Type;

use crate::Schema;
use crate::sql::Statements;

/// Every statement of the engine for `schema`: its name, text and parameter types.
#[must_use]
pub fn statements(schema: &Schema) -> Vec<(&'static str, String, &'static [Type])> {
    let statements = Statements::new(schema);
    statements.all().into_iter().map(|s| (s.name, s.text.clone(), s.types)).collect()
}
