//! Why there is no connection, said so that a person knows which part of the address is at fault.
//!
//! How it fails: it does not. Invariant: the password never appears.

use crate::{Database, Error, ErrorKind};

impl Database {
    /// Says which part of the address is at fault.
    pub(crate) fn refused(&self, error: tokio_postgres::Error) -> Error {
        let place = self.place();
        if let Some(report) = error.as_db_error() {
            let message =
                format!("PostgreSQL at {place} refused the connection: {}", report.message());
            let hint = match report.code().code() {
                "3D000" => "create the database, or name another in the URL",
                "28P01" | "28000" => "check the user and the password in the URL",
                "53300" => "raise max_connections, or lower the pool sizes",
                _ => "see the server's log",
            };
            return Error::from_report(crate::error::Report {
                refused: true,
                sqlstate: Some(report.code().code().to_owned()),
                message,
                hint: Some(hint.to_owned()),
                column: None,
                source: Some(error.into()),
            });
        }
        let reason = std::error::Error::source(&error)
            .map_or_else(|| error.to_string(), ToString::to_string);
        if error.to_string().contains("TLS") {
            let message = format!("TLS with PostgreSQL at {place} failed: {reason}");
            return Error::new(ErrorKind::Configuration, message)
                .with_hint("name its authority with sslrootcert, or choose another sslmode")
                .with_source(error);
        }
        let message = format!("no PostgreSQL answers at {place}: {reason}");
        Error::new(ErrorKind::Unreachable, message)
            .with_hint("is the server running, and is the URL right?")
            .with_source(error)
    }

    /// The error for an attempt to connect that went on for too long.
    pub(crate) fn silent(&self) -> Error {
        let message = format!("no PostgreSQL answers at {}: it took too long", self.place());
        Error::new(ErrorKind::Unreachable, message)
            .with_hint("is the server running, and is the way to it open?")
    }
}
