//! Where the demo takes place: a PostgreSQL that was named, or a private one, and two schemas in
//! it.
//!
//! How it fails: [`Failure`] that says what to install, what is in the way, or which part of the
//! URL is wrong. Invariants: nothing but the two schemas is touched, and those only when they bear
//! the demo's mark; one demo runs in a database at a time; every connection carries the name of
//! this run, so that what is left of it can be found and ended.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use postrider::{Database, Schema, migrate};
use postrider_embedded::{PrivateServer, ServerOptions};
use tokio_postgres::Client;

use super::failure::Failure;
use super::view::View;

/// The schema of Postrider. The SQL files name it, too.
pub(super) const ENGINE_SCHEMA: &str = "postrider_demo";
/// The schema of the shop's own tables.
pub(super) const SHOP_SCHEMA: &str = "postrider_demo_shop";
/// The comment by which the demo knows its schemas again. `create.sql` sets it.
const MARK: &str = "Made by `postrider demo`; dropped at its end.";

/// The database of a run.
pub(super) struct Place {
    url: String,
    /// Names the connections of this run.
    run: String,
    /// Holds the lock that keeps a second demo away.
    client: Client,
    /// The private server, until it is stopped.
    server: Mutex<Option<PrivateServer>>,
    keep: bool,
    /// Whether what bears the names of the demo's schemas is the demo's.
    is_ours: AtomicBool,
}

impl Place {
    /// Makes the schemas, unless somebody else's are in the way.
    pub(super) async fn prepare(&self, view: &View) -> Result<(), Failure> {
        self.check(view).await?;
        self.is_ours.store(true, Ordering::Release);
        let mut client = self.database("setup")?.connect().await?;
        client.batch_execute(include_str!("sql/drop.sql")).await?;
        client.batch_execute(include_str!("sql/create.sql")).await?;
        migrate::apply(&mut client, &self.schema()).await?;
        client.batch_execute(include_str!("sql/shop.sql")).await?;
        Ok(())
    }

    /// Opens what an earlier run kept.
    pub(super) async fn reopen(url: &str, view: &View) -> Result<Self, Failure> {
        let place = Self::find(Some(url), true, view).await?;
        if place.schemas().await? != [(ENGINE_SCHEMA.into(), true), (SHOP_SCHEMA.into(), true)] {
            let message = "no run of the demo was kept in this database";
            return Err(Failure::configuration(message, "run: postrider demo --keep"));
        }
        Ok(place)
    }

    /// Finds or starts PostgreSQL.
    pub(super) async fn find(url: Option<&str>, keep: bool, view: &View) -> Result<Self, Failure> {
        let run = format!("postrider-demo-{}", &uuid::Uuid::new_v4().simple().to_string()[..8]);
        let (url, server) = match url {
            Some(url) => (url.to_owned(), None),
            None => {
                view.tell("No database was named: looking for PostgreSQL on this machine.");
                let server = PrivateServer::start(ServerOptions::new()).await?;
                let version = server.version();
                let programs = server.bin_dir().display().to_string();
                view.tell(&format!(
                    "Started a private PostgreSQL {version} (programs in {programs}); it is \
                     removed at the end."
                ));
                (server.url(), Some(server))
            }
        };
        let client = Database::new(&named(&url, &format!("{run}-control")))?.connect().await?;
        Ok(Self {
            url,
            run,
            client,
            server: Mutex::new(server),
            keep,
            is_ours: AtomicBool::new(false),
        })
    }

    /// Makes sure that nobody else's schemas are in the way and no other demo is running.
    async fn check(&self, view: &View) -> Result<(), Failure> {
        if !self.client.query_one(include_str!("sql/lock.sql"), &[]).await?.try_get::<_, bool>(0)? {
            let message = "another `postrider demo` is running in this database";
            return Err(Failure::configuration(message, "wait for its end, or name another one"));
        }
        let schemas = self.schemas().await?;
        if let Some((name, _)) = schemas.iter().find(|(_, ours)| !ours) {
            let message = format!(
                "the schema `{name}` exists in this database and was not made by the demo: \
                 nothing was touched"
            );
            let hint = "name another database with --database-url, or rename that schema";
            return Err(Failure::configuration(message, hint));
        }
        if self.private_url().is_none() {
            let place = self.address();
            view.tell(&format!(
                "Working in {place}, in two schemas of the demo's own: {ENGINE_SCHEMA} and \
                 {SHOP_SCHEMA}."
            ));
        }
        if !schemas.is_empty() {
            view.tell("Removing what an earlier run of the demo left there.");
        }
        Ok(())
    }

    /// Those of the demo's schemas that exist, by name, and whether the demo made them.
    async fn schemas(&self) -> Result<Vec<(String, bool)>, Failure> {
        let names: &[&str] = &[ENGINE_SCHEMA, SHOP_SCHEMA];
        let rows = self.client.query(include_str!("sql/schemas.sql"), &[&names, &MARK]).await?;
        let mut found = Vec::new();
        for row in rows {
            found.push((row.try_get("name")?, row.try_get("ours")?));
        }
        found.sort();
        Ok(found)
    }

    /// The database, for connections that are named after this run and `part`.
    pub(super) fn database(&self, part: &str) -> Result<Database, Failure> {
        Ok(Database::new(&self.url_for(part))?)
    }

    /// The URL for `part`, a process or a purpose.
    pub(super) fn url_for(&self, part: &str) -> String {
        named(&self.url, &self.application(part))
    }

    /// How the connections of `part` are called in `pg_stat_activity`.
    pub(super) fn application(&self, part: &str) -> String {
        format!("{}-{part}", self.run)
    }

    /// Postrider's schema.
    pub(super) fn schema(&self) -> Schema {
        Schema::new(ENGINE_SCHEMA).expect("the name is a plain one")
    }

    /// The URL when the server is the demo's own, for a person who wants to look at what was kept.
    pub(super) fn private_url(&self) -> Option<&str> {
        let is_private = self.server().is_some();
        is_private.then_some(self.url.as_str())
    }

    /// Host and database without the password.
    fn address(&self) -> String {
        let config = self.url.parse::<tokio_postgres::Config>().unwrap_or_default();
        let host = match config.get_hosts().first() {
            Some(tokio_postgres::config::Host::Tcp(name)) => name.clone(),
            #[cfg(unix)]
            Some(tokio_postgres::config::Host::Unix(path)) => path.display().to_string(),
            None => "localhost".into(),
        };
        let database = config.get_dbname().or(config.get_user()).unwrap_or("postgres");
        format!("the database {database} on {host}")
    }

    /// Ends what is left of this run's connections and drops the schemas, unless they are kept;
    /// stops the private server.
    pub(super) async fn close(&self) -> Result<(), Failure> {
        let server = self.server().take();
        if let Some(server) = server {
            return match server.stop().await {
                Ok(()) => Ok(()),
                Err(error) => Err(Failure::new(super::failure::chain(&error))),
            };
        }
        let pattern = format!("{}-%", self.run);
        self.client.execute(include_str!("sql/backends_end.sql"), &[&pattern]).await?;
        if !self.keep && self.is_ours.load(Ordering::Acquire) {
            self.client.batch_execute(include_str!("sql/drop.sql")).await?;
        }
        Ok(())
    }

    fn server(&self) -> MutexGuard<'_, Option<PrivateServer>> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The connection string with another `application_name`; the last one in it counts.
fn named(url: &str, application: &str) -> String {
    let is_url = url.starts_with("postgres://") || url.starts_with("postgresql://");
    match (is_url, url.contains('?')) {
        (true, true) => format!("{url}&application_name={application}"),
        (true, false) => format!("{url}?application_name={application}"),
        (false, _) => format!("{url} application_name={application}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_a_connection_string_takes_the_name() {
        for url in [
            "postgres://u:p@h:1/d",
            "postgresql://h/d?sslmode=disable&application_name=x",
            "host=h dbname=d application_name=x",
        ] {
            let config: tokio_postgres::Config = named(url, "run-1").parse().unwrap();
            assert_eq!(config.get_application_name(), Some("run-1"), "{url}");
            assert_eq!(config.get_dbname(), Some("d"), "{url}");
        }
    }

    #[test]
    fn the_mark_is_the_comment_that_the_schemas_get() {
        let text = include_str!("sql/create.sql");
        assert_eq!(text.matches(MARK).count(), 2);
        for name in [ENGINE_SCHEMA, SHOP_SCHEMA] {
            assert!(text.contains(&format!("create schema {name};")));
        }
    }
}
