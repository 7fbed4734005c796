//! What a database URL asks of TLS, in libpq's words.
//!
//! How it fails: [`Error`] for a mode that libpq does not know either. Invariant: what is taken out
//! of the URL here is exactly `sslmode` and `sslrootcert`.

use crate::{Error, ErrorKind};

/// The modes that libpq knows, and what the driver calls them.
const MODES: &[(&str, &str)] = &[
    ("disable", "disable"),
    ("allow", "prefer"),
    ("prefer", "prefer"),
    ("require", "require"),
    ("verify-ca", "require"),
    ("verify-full", "require"),
];

/// What a URL asks of TLS.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct SslAsked {
    mode: Option<&'static str>,
    /// A file of certificates to trust, in PEM form.
    pub(super) root: Option<String>,
}

impl SslAsked {
    /// Takes the settings of TLS out of `url`; returns the rest, with a mode the driver knows.
    pub(super) fn take(url: &str) -> Result<(String, Self), Error> {
        let mut asked = Self::default();
        let (head, separator, settings, joint) = match url.split_once('?') {
            Some((head, settings)) if url.contains("://") => (head, "?", settings, '&'),
            _ if url.contains("://") => return Ok((url.to_owned(), asked)),
            _ => ("", "", url, ' '),
        };
        let mut kept: Vec<String> = Vec::new();
        for setting in settings.split(joint).filter(|setting| !setting.is_empty()) {
            match setting.split_once('=') {
                Some(("sslmode", mode)) => {
                    let (mode, driver) = known(mode)?;
                    asked.mode = Some(mode);
                    kept.push(format!("sslmode={driver}"));
                }
                Some(("sslrootcert", path)) => {
                    asked.root = Some(path.replace("%2F", "/").replace("%20", " "));
                }
                _ => kept.push(setting.to_owned()),
            }
        }
        let separator = if kept.is_empty() { "" } else { separator };
        let rest = format!("{head}{separator}{}", kept.join(&joint.to_string()));
        Ok((rest, asked))
    }

    /// Whether the certificate's chain is to be checked.
    #[cfg(feature = "tls")]
    pub(super) fn checks_certificate(&self) -> bool {
        match self.mode {
            Some("verify-ca" | "verify-full") => true,
            Some("require") => self.root.is_some(),
            _ => false,
        }
    }

    /// Whether the host's name is to be checked too.
    #[cfg(feature = "tls")]
    pub(super) fn checks_host(&self) -> bool {
        self.mode == Some("verify-full")
    }
}

fn known(mode: &str) -> Result<(&'static str, &'static str), Error> {
    MODES.iter().find(|(name, _)| *name == mode).copied().ok_or_else(|| {
        let message = format!("sslmode: `{mode}` is unknown");
        Error::new(ErrorKind::Configuration, message)
            .with_field("sslmode")
            .with_hint("say disable, allow, prefer, require, verify-ca or verify-full")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_settings_of_tls_are_taken_out_of_urls_and_of_keys_and_values() {
        for (url, rest) in [
            ("postgres://a@h/d", "postgres://a@h/d"),
            ("postgres://a@h/d?sslmode=verify-full", "postgres://a@h/d?sslmode=require"),
            ("postgres://a@h/d?sslrootcert=%2Fca.pem", "postgres://a@h/d"),
            (
                "postgres://a@h/d?connect_timeout=3&sslmode=verify-ca&sslrootcert=ca.pem",
                "postgres://a@h/d?connect_timeout=3&sslmode=require",
            ),
            ("host=h sslmode=allow user=a", "host=h sslmode=prefer user=a"),
        ] {
            assert_eq!(SslAsked::take(url).expect(url).0, rest, "{url}");
        }
        assert!(SslAsked::take("postgres://h/d?sslmode=on").is_err());
    }

    #[cfg(feature = "tls")]
    #[test]
    fn what_is_checked_is_what_libpq_checks() {
        let asked = |url: &str| SslAsked::take(url).expect(url).1;
        for (url, certificate, host) in [
            ("postgres://h/d", false, false),
            ("postgres://h/d?sslmode=require", false, false),
            ("postgres://h/d?sslmode=require&sslrootcert=x", true, false),
            ("postgres://h/d?sslmode=verify-ca", true, false),
            ("postgres://h/d?sslmode=verify-full", true, true),
        ] {
            assert_eq!(asked(url).checks_certificate(), certificate, "{url}");
            assert_eq!(asked(url).checks_host(), host, "{url}");
        }
    }
}
