//! Event types: their names, who may see them, and their declarations.
//!
//! How it fails: [`Invalid`] for a name that breaks the rules. Invariant: a [`TypeName`] is always
//! one or more non-empty segments of `[A-Za-z0-9_-]`, 255 bytes at most.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Invalid;

/// The longest type name and glob in bytes: a name must fit every broker's topic.
pub const TYPE_BYTES_MAX: usize = 255;

/// Types below this prefix are Postrider's own and cannot be declared or recorded by callers.
pub const RESERVED_TYPE_PREFIX: &str = "postrider.";

/// The name of an event type: a dotted noun, then a verb, such as `order.item.added`.
///
/// Case-sensitive, at most [`TYPE_BYTES_MAX`] bytes, segments of `[A-Za-z0-9_-]`.
///
/// ```
/// use postrider_core::TypeName;
/// assert!(TypeName::parse("order.placed").is_ok());
/// assert!(TypeName::parse("order.*").is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct TypeName(String);

impl TypeName {
    /// Checks `name` and takes it.
    ///
    /// # Errors
    /// [`Invalid`] when the name is empty, longer than 255 bytes, has an empty segment, or holds a
    /// character other than letters, digits, `_`, `-` and the dot between segments.
    pub fn parse(name: impl Into<String>) -> Result<Self, Invalid> {
        let name = name.into();
        check_dotted("type", &name)?;
        for segment in name.split('.') {
            check_segment("type", segment)?;
        }
        Ok(Self(name))
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the name is one of Postrider's own (`postrider.…`).
    #[must_use]
    pub fn is_reserved(&self) -> bool {
        self.0.starts_with(RESERVED_TYPE_PREFIX) || self.0 == "postrider"
    }
}

impl fmt::Display for TypeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Refuses a dotted name that is empty or too long.
pub(crate) fn check_dotted(field: &'static str, name: &str) -> Result<(), Invalid> {
    if name.is_empty() {
        return Err(Invalid::new(field, "is empty; write a dotted name such as `order.placed`"));
    }
    if name.len() > TYPE_BYTES_MAX {
        let found = name.len();
        let problem = format!("is {found} bytes long, at most {TYPE_BYTES_MAX} fit");
        return Err(Invalid::new(field, problem));
    }
    Ok(())
}

/// Refuses a literal segment that is empty or holds a character outside `[A-Za-z0-9_-]`.
pub(crate) fn check_segment(field: &'static str, segment: &str) -> Result<(), Invalid> {
    if segment.is_empty() {
        return Err(Invalid::new(field, "has an empty segment (a dot at an end, or two in a row)"));
    }
    let odd = segment.chars().find(|c| !(c.is_ascii_alphanumeric() || *c == '_' || *c == '-'));
    match odd {
        None => Ok(()),
        Some(odd) => {
            let problem = format!(
                "segment `{}` holds {odd:?}; segments are letters, digits, `_` and `-`",
                segment.escape_debug()
            );
            Err(Invalid::new(field, problem))
        }
    }
}

/// Whether an event may leave the instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Exposure {
    /// Never leaves the instance: only handlers in a process of the owner get it.
    #[default]
    Internal,
    /// Webhooks, brokers and pull clients may have it too.
    External,
}

impl Exposure {
    /// The word used in SQL, JSON and on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Internal => "internal",
            Self::External => "external",
        }
    }
}

impl std::str::FromStr for Exposure {
    type Err = Invalid;

    fn from_str(word: &str) -> Result<Self, Invalid> {
        match word {
            "internal" => Ok(Self::Internal),
            "external" => Ok(Self::External),
            _ => Err(Invalid::new("exposure", format!("is `{word}`; say internal or external"))),
        }
    }
}

/// A declaration of an event type.
///
/// Declarations carry a version: of two that differ the higher one stands, whatever the order in
/// which processes start, so that an old process cannot undo what a newer one declared.
///
/// ```
/// use postrider_core::{EventType, Exposure};
/// let placed = EventType::new("order.placed")?.description("An order was placed.").external();
/// assert_eq!(placed.exposure, Exposure::External);
/// # Ok::<(), postrider_core::Invalid>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventType {
    /// The name.
    pub name: TypeName,
    /// What the event tells, for people. Defaults to the empty text.
    pub description: String,
    /// Who may have it. Defaults to [`Exposure::Internal`].
    pub exposure: Exposure,
    /// The version of this declaration, 1 or more. Defaults to 1.
    pub version: i32,
}

impl EventType {
    /// Declares `name` as internal, without description, at version 1.
    ///
    /// # Errors
    /// [`Invalid`] when the name breaks the rules of [`TypeName`] or is reserved.
    pub fn new(name: impl Into<String>) -> Result<Self, Invalid> {
        let name = TypeName::parse(name)?;
        if name.is_reserved() {
            let problem = format!("`{name}` is reserved: `postrider.` names are Postrider's own");
            return Err(Invalid::new("type", problem));
        }
        let (description, exposure) = (String::new(), Exposure::Internal);
        Ok(Self { name, description, exposure, version: 1 })
    }

    /// Sets the description.
    #[must_use]
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = description.into();
        self
    }

    /// Lets the event leave the instance.
    #[must_use]
    pub fn external(mut self) -> Self {
        self.exposure = Exposure::External;
        self
    }

    /// Sets the version of the declaration; raise it when the declaration changes.
    #[must_use]
    pub fn version(mut self, version: i32) -> Self {
        self.version = version;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_break_a_rule_are_refused_with_the_rule() {
        for (name, says) in [
            ("", "empty"),
            (".", "empty segment"),
            ("a.", "empty segment"),
            (".a", "empty segment"),
            ("a..b", "empty segment"),
            ("a b", "holds ' '"),
            ("a*", "holds '*'"),
            ("é", "holds 'é'"),
            ("a\u{0}", "holds"),
        ] {
            let refused = TypeName::parse(name).expect_err(name).to_string();
            assert!(refused.contains(says), "{name:?}: {refused}");
        }
        assert!(TypeName::parse("a".repeat(256)).is_err());
        assert!(TypeName::parse("a".repeat(255)).is_ok());
    }

    #[test]
    fn reserved_names_cannot_be_declared() {
        assert!(EventType::new("postrider.endpoint.disabled").is_err());
        assert!(EventType::new("postrider").is_err());
        assert!(EventType::new("postriders.order").is_ok());
    }
}
