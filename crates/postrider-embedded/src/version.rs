//! The version of a PostgreSQL server: what `postgres --version` says, as numbers.

use std::fmt;

/// The version of a PostgreSQL server, such as 15.4.
///
/// Versions compare as one expects: 14.9 is less than 15.0.
///
/// ```
/// use postrider_embedded::Version;
///
/// let version = Version::parse("postgres (PostgreSQL) 15.4 (Debian 15.4-1)").unwrap();
/// assert_eq!(version.major(), 15);
/// assert_eq!(version.to_string(), "15.4");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    major: u16,
    minor: u16,
}

impl Version {
    /// The oldest version that Postrider runs on. Version 13 has left support in 2025.
    pub const OLDEST: Self = Self { major: 14, minor: 0 };

    /// Reads the line that `postgres --version` prints. Returns `None` when there is no version in
    /// it. Betas and development builds ("18beta1", "19devel") count as minor version 0.
    pub fn parse(line: &str) -> Option<Self> {
        let (_, rest) = line.split_once("(PostgreSQL) ")?;
        let word = rest.split_whitespace().next()?;
        let digits = |text: &str| text.chars().take_while(char::is_ascii_digit).collect::<String>();
        let major = digits(word);
        let minor = word[major.len()..].strip_prefix('.').map(digits).unwrap_or_default();
        Some(Self { major: major.parse().ok()?, minor: minor.parse().unwrap_or(0) })
    }

    /// The part before the dot. Servers of one major version share the format of their data.
    pub fn major(self) -> u16 {
        self.major
    }

    /// The part after the dot.
    pub fn minor(self) -> u16 {
        self.minor
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Option<(u16, u16)> {
        Version::parse(line).map(|version| (version.major(), version.minor()))
    }

    #[test]
    fn release_and_preview_versions_are_understood() {
        assert_eq!(parsed("postgres (PostgreSQL) 15.14 (Debian 15.14-0+deb12u1)"), Some((15, 14)));
        assert_eq!(parsed("postgres (PostgreSQL) 18beta1"), Some((18, 0)));
        assert_eq!(parsed("postgres (PostgreSQL) 19devel"), Some((19, 0)));
        assert_eq!(parsed("postgres (PostgreSQL) 9.6.24"), Some((9, 6)));
    }

    #[test]
    fn a_line_without_a_version_is_no_version() {
        assert_eq!(parsed("postgres (SomethingElse) 15.1"), None);
        assert_eq!(parsed("postgres (PostgreSQL) "), None);
        assert_eq!(parsed(""), None);
    }

    #[test]
    fn versions_compare_by_number_and_not_by_text() {
        let of = |line: &str| Version::parse(&format!("postgres (PostgreSQL) {line}")).unwrap();
        assert!(of("9.6") < of("10.1"));
        assert!(of("15.9") < of("15.14"));
        assert!(of("13.22") < Version::OLDEST);
    }
}
