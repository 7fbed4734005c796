//! Declared types.
//!
//! How it fails: the database's error; a refused declaration has changed nothing. Invariant: of two
//! declarations of a type the one with the higher version stands.

use std::collections::{HashMap, HashSet};

use serde::Serialize;
use time::OffsetDateTime;

use super::Admin;
use crate::{Error, EventType, Exposure};

/// A declared type.
#[derive(Debug, Clone, Serialize)]
pub struct TypeInfo {
    /// The name.
    pub name: String,
    /// What the event tells, for people.
    pub description: String,
    /// Who may have it.
    pub exposure: Exposure,
    /// The version of the declaration.
    pub version: i32,
    /// When it was declared or last changed.
    #[serde(with = "time::serde::rfc3339")]
    pub declared_at: OffsetDateTime,
}

/// What a declaration of a type came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Declaration {
    /// The type is new or its declaration changed.
    Declared,
    /// It was declared like this already.
    Unchanged,
    /// A declaration of a higher version stands; this one was not taken.
    Outdated,
}

/// A type after its declaration.
#[derive(Debug, Clone, Serialize)]
pub struct DeclaredType {
    /// What the declaration came to.
    pub result: Declaration,
    /// The type as it stands now.
    #[serde(flatten)]
    pub info: TypeInfo,
}

impl Admin {
    /// Declares types, all or none, and routes them to the subscriptions that want them.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Database`] or [`crate::ErrorKind::Unreachable`].
    pub async fn declare_types(&self, types: &[EventType]) -> Result<Vec<DeclaredType>, Error> {
        let declared = self.store.declare(types, &[], None).await?;
        let changed: HashSet<&String> = declared.changed_types.iter().collect();
        let stored: HashMap<String, TypeInfo> =
            self.types().await?.into_iter().map(|info| (info.name.clone(), info)).collect();
        let asked = types.iter().filter_map(|asked| {
            let info = stored.get(asked.name.as_str())?.clone();
            let result = if changed.contains(&info.name) {
                Declaration::Declared
            } else if info.version > asked.version {
                Declaration::Outdated
            } else {
                Declaration::Unchanged
            };
            Some(DeclaredType { result, info })
        });
        Ok(asked.collect())
    }

    /// The declared types, by name.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Database`] or [`crate::ErrorKind::Unreachable`].
    pub async fn types(&self) -> Result<Vec<TypeInfo>, Error> {
        let stored = self.store.types().await?;
        let info = stored.into_iter().map(|stored| TypeInfo {
            name: stored.name.as_str().to_owned(),
            description: stored.description,
            exposure: stored.exposure,
            version: stored.version,
            declared_at: stored.declared_at,
        });
        Ok(info.collect())
    }
}
