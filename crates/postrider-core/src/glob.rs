//! Globs over event types: the one matcher that every part of Postrider uses.
//!
//! `*` is exactly one segment, `**` is zero or more whole segments, everything else is a literal
//! segment. Matching is anchored at both ends and case-sensitive.
//!
//! How it fails: [`Invalid`] for a glob that could never match a type. Invariant: matching takes
//! at most (segments of the glob) × (segments of the name) steps.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::event_type::{check_dotted, check_segment};
use crate::{Invalid, TypeName};

/// A pattern over event types.
///
/// ```
/// use postrider_core::{Glob, TypeName};
/// let glob = Glob::parse("order.**")?;
/// assert!(glob.matches(&TypeName::parse("order")?));
/// assert!(glob.matches(&TypeName::parse("order.item.added")?));
/// assert!(!glob.matches(&TypeName::parse("orders.placed")?));
/// # Ok::<(), postrider_core::Invalid>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Glob(String);

impl Glob {
    /// Checks `glob` and takes it.
    ///
    /// # Errors
    /// [`Invalid`] when it is empty, longer than 255 bytes, has an empty segment, or has a segment
    /// that is neither a wildcard nor a literal of `[A-Za-z0-9_-]`: such a glob matches no type.
    pub fn parse(glob: impl Into<String>) -> Result<Self, Invalid> {
        let glob = glob.into();
        check_dotted("glob", &glob)?;
        for segment in glob.split('.') {
            if segment == "*" || segment == "**" {
                continue;
            }
            if segment.contains('*') {
                let problem = format!(
                    "segment `{segment}` mixes `*` with other characters; a segment is a literal, \
                     `*` (exactly one segment) or `**` (any number)"
                );
                return Err(Invalid::new("glob", problem));
            }
            check_segment("glob", segment)?;
        }
        Ok(Self(glob))
    }

    /// The glob as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the whole of `name` fits the glob.
    #[must_use]
    pub fn matches(&self, name: &TypeName) -> bool {
        matches_segments(&self.0, name.as_str())
    }

    /// The same pattern as an anchored POSIX regular expression, for filters that run in SQL.
    ///
    /// ```
    /// let glob = postrider_core::Glob::parse("a.*.**")?;
    /// assert_eq!(glob.to_regex(), r"^a\.[^.]+(\.[^.]+)*$");
    /// # Ok::<(), postrider_core::Invalid>(())
    /// ```
    #[must_use]
    pub fn to_regex(&self) -> String {
        let mut regex = String::from("^");
        // Whether a segment that must exist already stands to the left, so that the next one
        // starts with a dot.
        let mut anchored = false;
        // Whether everything so far may be empty, so that the dot after it is optional too.
        let mut optional = false;
        for segment in self.0.split('.') {
            match segment {
                "**" if anchored => regex.push_str(r"(\.[^.]+)*"),
                "**" => optional = true,
                literal => {
                    if anchored {
                        regex.push_str(r"\.");
                    } else if optional {
                        regex.push_str(r"([^.]+\.)*");
                    }
                    regex.push_str(if literal == "*" { "[^.]+" } else { literal });
                    anchored = true;
                }
            }
        }
        if !anchored {
            regex.push_str(r"[^.]+(\.[^.]+)*");
        }
        regex.push('$');
        regex
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for Glob {
    type Error = Invalid;

    fn try_from(glob: String) -> Result<Self, Invalid> {
        Self::parse(glob)
    }
}

impl From<Glob> for String {
    fn from(glob: Glob) -> Self {
        glob.0
    }
}

/// Matches segment by segment; on a mismatch falls back to the last `**` and lets it eat one more.
fn matches_segments(glob: &str, name: &str) -> bool {
    let glob: Vec<&str> = glob.split('.').collect();
    let name: Vec<&str> = name.split('.').collect();
    let (mut g, mut n) = (0, 0);
    let mut last_wild: Option<(usize, usize)> = None;
    while n < name.len() {
        if g < glob.len() && glob[g] == "**" {
            last_wild = Some((g, n));
            g += 1;
        } else if g < glob.len() && (glob[g] == "*" || glob[g] == name[n]) {
            g += 1;
            n += 1;
        } else if let Some((wild, eaten)) = last_wild {
            last_wild = Some((wild, eaten + 1));
            g = wild + 1;
            n = eaten + 1;
        } else {
            return false;
        }
    }
    glob[g..].iter().all(|segment| *segment == "**")
}

/// A set of globs; a type matches when at least one does.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Globs(Vec<Glob>);

impl Globs {
    /// Takes the globs in the order given, dropping repeats.
    #[must_use]
    pub fn new(globs: impl IntoIterator<Item = Glob>) -> Self {
        let mut kept: Vec<Glob> = Vec::new();
        for glob in globs {
            if !kept.contains(&glob) {
                kept.push(glob);
            }
        }
        Self(kept)
    }

    /// Parses each text as a glob.
    ///
    /// # Errors
    /// [`Invalid`] for the first text that is no glob.
    pub fn parse<T: Into<String>>(globs: impl IntoIterator<Item = T>) -> Result<Self, Invalid> {
        Ok(Self::new(globs.into_iter().map(Glob::parse).collect::<Result<Vec<_>, _>>()?))
    }

    /// Whether at least one glob matches; overlapping globs still match once.
    #[must_use]
    pub fn matches(&self, name: &TypeName) -> bool {
        self.0.iter().any(|glob| glob.matches(name))
    }

    /// The globs, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Glob> {
        self.0.iter()
    }

    /// The globs as texts, in order.
    #[must_use]
    pub fn to_texts(&self) -> Vec<String> {
        self.0.iter().map(|glob| glob.0.clone()).collect()
    }

    /// How many globs there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none; an empty set matches nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Every glob and type of the public documentation, and whether they match.
    const TABLE: &[(&str, &str, bool)] = &[
        ("a.*.b", "a.x.b", true),
        ("a.*.b", "a.x.y.b", false),
        ("a.*.b", "a.b", false),
        ("a.*", "a.x", true),
        ("a.*", "a", false),
        ("a.*", "a.x.y", false),
        ("a.**", "a", true),
        ("a.**", "a.x", true),
        ("a.**", "a.x.y.b", true),
        ("a.**", "ab.x", false),
        ("**.b", "b", true),
        ("**.b", "a.x.b", true),
        ("**.b", "a.x.b.c", false),
        ("a.**.b", "a.b", true),
        ("a.**.b", "a.x.y.b", true),
        ("a.**.b", "a.x.y.c", false),
        ("a.**.b.**.c", "a.b.b.c", true),
        ("*", "a", true),
        ("*", "a.b", false),
        ("**", "a.b.c", true),
        ("**.*", "a", true),
        ("*.**", "a", true),
        ("**.**", "a", true),
        ("a_b.*", "a_b.c", true),
        ("a_b.*", "axb.c", false),
        ("A.*", "A.x", true),
        ("A.*", "a.x", false),
        ("a.x", "xa.x", false),
        ("a.x", "a.xx", false),
    ];

    #[test]
    fn the_table_of_globs_holds() {
        for (glob, name, expected) in TABLE {
            let parsed = Glob::parse(*glob).expect(glob);
            let found = parsed.matches(&TypeName::parse(*name).expect(name));
            assert_eq!(found, *expected, "{glob} against {name}");
        }
    }

    #[test]
    fn globs_that_can_match_nothing_are_refused() {
        for glob in ["", "a.", ".a", "a..b", "a%", "[ab].*", "a*", "*a", "***", "a.***", "a b"] {
            assert!(Glob::parse(glob).is_err(), "{glob:?} was taken");
        }
    }

    #[test]
    fn overlapping_globs_of_a_set_match_once_and_repeats_are_dropped() {
        let globs = Globs::parse(["order.*", "order.**", "order.*"]).expect("valid");
        assert_eq!(globs.len(), 2);
        assert!(globs.matches(&TypeName::parse("order.placed").expect("valid")));
    }

    /// The definition itself, slow and obvious.
    fn by_definition(glob: &[&str], name: &[&str]) -> bool {
        match (glob.first(), name.first()) {
            (None, None) => true,
            (Some(&"**"), _) => {
                by_definition(&glob[1..], name)
                    || (!name.is_empty() && by_definition(glob, &name[1..]))
            }
            (Some(&"*"), Some(_)) => by_definition(&glob[1..], &name[1..]),
            (Some(g), Some(n)) if g == n => by_definition(&glob[1..], &name[1..]),
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn the_matcher_agrees_with_the_definition(
            glob in proptest::collection::vec("[ab]|\\*|\\*\\*", 1..7),
            name in proptest::collection::vec("[ab]", 1..7),
        ) {
            let segments =
                |texts: &[String]| texts.iter().map(String::to_owned).collect::<Vec<String>>();
            let texts = (segments(&glob), segments(&name));
            let parsed = Glob::parse(glob.join(".")).expect("valid by construction");
            let name = TypeName::parse(name.join(".")).expect("valid by construction");
            let (glob, segments): (Vec<&str>, Vec<&str>) = (
                texts.0.iter().map(String::as_str).collect(),
                texts.1.iter().map(String::as_str).collect(),
            );
            prop_assert_eq!(parsed.matches(&name), by_definition(&glob, &segments));
        }
    }
}
