//! Rewrites one part of a PostgreSQL URL and leaves the rest as it is.
//!
//! `postgres://USER:PASSWORD@HOST:PORT/DATABASE?PARAMETERS`. Credentials, escapes and parameters
//! pass through untouched, because we only cut the text at its separators.

/// A URL, cut at the separators. The parts put together are the URL again.
struct Parts<'a> {
    /// With the `://`.
    scheme: &'a str,
    /// With the `@`; may be empty.
    credentials: &'a str,
    address: &'a str,
    /// With the `/`; may be empty.
    path: &'a str,
    /// With the `?`; may be empty.
    query: &'a str,
}

impl<'a> Parts<'a> {
    fn of(url: &'a str) -> Self {
        let after_scheme = url.find("://").map(|at| at + 3).unwrap_or_else(|| {
            panic!(
                "a URL such as postgres://user@host:5432/database is needed, and {url:?} is none"
            )
        });
        let (scheme, rest) = url.split_at(after_scheme);
        let (rest, query) = rest.split_at(rest.find('?').unwrap_or(rest.len()));
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (credentials, address) =
            authority.split_at(authority.rfind('@').map_or(0, |at| at + 1));
        Self { scheme, credentials, address, path, query }
    }
}

/// The same URL with another database.
pub(crate) fn with_database(url: &str, name: &str) -> String {
    let Parts { scheme, credentials, address, query, .. } = Parts::of(url);
    format!("{scheme}{credentials}{address}/{name}{query}")
}

/// The same URL with another host and port.
pub(crate) fn with_address(url: &str, address: &str) -> String {
    let Parts { scheme, credentials, path, query, .. } = Parts::of(url);
    format!("{scheme}{credentials}{address}{path}{query}")
}

/// The user and the password in a URL; the user defaults to `postgres`.
pub(crate) fn credentials_of(url: &str) -> (String, String) {
    let credentials = Parts::of(url).credentials.trim_end_matches('@');
    let (user, password) = credentials.split_once(':').unwrap_or((credentials, ""));
    let user = if user.is_empty() { "postgres" } else { user };
    (user.to_owned(), password.to_owned())
}

/// The address in a URL, as "host:port". The port defaults to 5432.
pub(crate) fn address_of(url: &str) -> String {
    let address = Parts::of(url).address;
    // The colons of an IPv6 address are inside brackets.
    let has_port = address.rfind(':') > address.rfind(']');
    match (address, has_port) {
        ("", _) => "127.0.0.1:5432".to_owned(),
        (address, true) => address.to_owned(),
        (address, false) => format!("{address}:5432"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const URL: &str = "postgres://ann:p%40ss@db.example:6432/app?sslmode=disable&x=/y";

    #[test]
    fn only_the_database_changes() {
        let expected = "postgres://ann:p%40ss@db.example:6432/other?sslmode=disable&x=/y";
        assert_eq!(with_database(URL, "other"), expected);
        assert_eq!(with_database("postgres://db", "other"), "postgres://db/other");
    }

    #[test]
    fn only_the_address_changes() {
        let expected = "postgres://ann:p%40ss@127.0.0.1:7/app?sslmode=disable&x=/y";
        assert_eq!(with_address(URL, "127.0.0.1:7"), expected);
        assert_eq!(with_address("postgres://db", "127.0.0.1:7"), "postgres://127.0.0.1:7");
    }

    #[test]
    fn the_credentials_are_found() {
        assert_eq!(credentials_of(URL), ("ann".to_owned(), "p%40ss".to_owned()));
        assert_eq!(credentials_of("postgres://db/x"), ("postgres".to_owned(), String::new()));
    }

    #[test]
    fn the_port_has_a_default() {
        assert_eq!(address_of(URL), "db.example:6432");
        assert_eq!(address_of("postgres://ann@db.example/app"), "db.example:5432");
        assert_eq!(address_of("postgres://[::1]/app"), "[::1]:5432");
        assert_eq!(address_of("postgres://[::1]:6432/app"), "[::1]:6432");
        assert_eq!(address_of("postgres:///app"), "127.0.0.1:5432");
    }

    #[test]
    #[should_panic(expected = "is none")]
    fn what_is_no_url_is_refused() {
        address_of("host=localhost dbname=app");
    }
}
