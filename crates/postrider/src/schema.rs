//! The name of Postrider's schema, and the keys and channel that belong to it.
//!
//! How it fails: [`Error`] for a name that PostgreSQL could not keep. Invariants: a name is quoted
//! wherever it is put into SQL; two schemas of one database never share a key or a channel.

use crate::{Error, ErrorKind};

/// The schema used when none is named.
pub const DEFAULT_SCHEMA: &str = "postrider";

/// A schema name that was checked.
///
/// ```
/// use postrider::Schema;
/// assert!(Schema::new("Out-Box x").is_ok());
/// assert!(Schema::new("pg_outbox").is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Schema(String);

impl Default for Schema {
    fn default() -> Self {
        Self(DEFAULT_SCHEMA.to_owned())
    }
}

impl Schema {
    /// Checks a schema name. Any name that PostgreSQL accepts works, odd characters included.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] when the name is empty, over 63 bytes, holds a control
    /// character, or begins with `pg_`, which PostgreSQL keeps for itself.
    pub fn new(name: impl Into<String>) -> Result<Self, Error> {
        let name = name.into();
        let problem = if name.is_empty() {
            "is empty"
        } else if name.len() > 63 {
            "is over 63 bytes long, which PostgreSQL would cut off"
        } else if name.chars().any(char::is_control) {
            "holds a control character"
        } else if name.starts_with("pg_") {
            "begins with pg_, which PostgreSQL keeps for itself"
        } else if name == "public" || name == "information_schema" {
            "belongs to others; Postrider needs one of its own"
        } else {
            return Ok(Self(name));
        };
        let message = format!("schema: `{}` {problem}", name.escape_debug());
        Err(Error::new(ErrorKind::Configuration, message).with_field("schema"))
    }

    /// The plain name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0
    }

    /// The name as an SQL identifier, quotes included.
    #[must_use]
    pub fn quoted(&self) -> String {
        format!("\"{}\"", self.0.replace('"', "\"\""))
    }

    /// The command that brings this schema up to date, for a shell.
    #[must_use]
    pub fn migrate_command(&self) -> String {
        let name = self.name();
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
        match name {
            DEFAULT_SCHEMA => "postrider migrate".to_owned(),
            _ if name.chars().all(is_plain) => format!("postrider migrate --schema={name}"),
            _ => format!("postrider migrate --schema='{}'", name.replace('\'', "'\\''")),
        }
    }

    /// Puts the schema's name, keys and channel into a template. What was put in is not looked at
    /// again, so a name may hold whatever a template does.
    pub(crate) fn render(&self, template: &str) -> String {
        let in_literal = self.quoted().replace('\'', "''");
        let values = [
            ("{schema}", self.quoted()),
            ("{schema_literal}", format!("'{in_literal}'")),
            ("{schema_in_literal}", in_literal),
            ("{channel}", format!("'{}'", self.channel())),
            ("{bell_key}", self.key("bell").to_string()),
            ("{duty_key}", self.key("duty").to_string()),
            ("{routing_key}", self.key("routing").to_string()),
        ];
        let mut text = String::with_capacity(template.len() * 2);
        let template = template.replace("$$", &self.body_quote());
        let mut rest = template.as_str();
        while let Some(start) = rest.find('{') {
            let (before, from) = rest.split_at(start);
            text.push_str(before);
            let found = values.iter().find(|(name, _)| from.starts_with(name));
            let (value, length) = found.map_or(("{", 1), |(name, value)| (value, name.len()));
            text.push_str(value);
            rest = &from[length..];
        }
        text.push_str(rest);
        text
    }

    /// Dollar quotes for function bodies: such as the name does not hold.
    fn body_quote(&self) -> String {
        let mut quote = String::from("$$");
        while self.0.contains(&quote) {
            quote.insert(1, 'q');
        }
        quote
    }

    /// The notification channel: short and plain, whatever the schema is called.
    pub(crate) fn channel(&self) -> String {
        format!("postrider_{:016x}", fnv1a(self.0.as_bytes()))
    }

    /// The key of an advisory lock of this schema.
    pub(crate) fn key(&self, purpose: &str) -> i64 {
        fnv1a(format!("postrider:{purpose}:{}", self.0).as_bytes()).cast_signed()
    }
}

/// FNV-1a: keys must be the same in every process and version, and need not resist anybody.
pub(crate) fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_postgres_could_not_keep_are_refused() {
        let long = "a".repeat(64);
        for name in ["", "pg_x", "public", "a\0b", long.as_str()] {
            let refused = Schema::new(name).expect_err(name);
            assert_eq!(refused.kind(), ErrorKind::Configuration);
        }
    }

    #[test]
    fn quotes_in_a_name_are_doubled_in_identifiers_and_literals() {
        let schema = Schema::new("it's \"x\"").expect("valid");
        assert_eq!(schema.render("{schema}.t"), r#""it's ""x""".t"#);
        assert_eq!(schema.render("{schema_literal}"), r#"'"it''s ""x"""'"#);
        assert_eq!(schema.render("'{schema_in_literal}.t'"), r#"'"it''s ""x""".t'"#);
    }

    #[test]
    fn what_stands_in_a_name_is_not_taken_for_a_part_of_the_template() {
        let schema = Schema::new("{channel}{schema}$$").expect("valid");
        let body = schema.render("{ $$ {schema} $$ }");
        assert_eq!(body, r#"{ $q$ "{channel}{schema}$$" $q$ }"#);
    }

    #[test]
    fn schemas_and_purposes_have_keys_of_their_own() {
        let (a, b) = (Schema::default(), Schema::new("other").expect("valid"));
        assert_ne!(a.key("bell"), a.key("duty"));
        assert_ne!(a.key("bell"), b.key("bell"));
        assert_ne!(a.channel(), b.channel());
    }
}
