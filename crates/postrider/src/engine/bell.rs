//! The doorbell: how the relay sleeps without missing an event and without making writers notify.
//!
//! One relay of the schema is on duty: its session holds the duty lock. Only it plays the bell.
//! About to sleep, it asks for the bell's lock alone; that is granted once every writer that stayed
//! silent has ended, and while it is held or asked for, writers ring. After it is granted one more
//! look is taken, then the relay sleeps.
//!
//! How it fails: a lost connection means that the relay is awake and off duty; everything is tried
//! again. Invariants: the bell is held only while the listening connection is up and the relay
//! sleeps or takes its last look; the lock connection is never inside a transaction.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio_postgres::Client;

use crate::connect::only_text;
use crate::{Database, Error, ErrorKind, Schema};

/// The SQLSTATE of a lock that was not granted in time.
const LOCK_NOT_AVAILABLE: &str = "55P03";
/// How long the lock connection may take to answer. The relay waits for it, and must not wait for a
/// socket that is half open.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// The lock connection of a process and what it holds.
pub(crate) struct Bell {
    database: Database,
    try_duty: String,
    take: String,
    leave: String,
    client: Option<Client>,
    on_duty: Arc<AtomicBool>,
    held: bool,
}

impl Bell {
    pub(crate) fn new(database: Database, schema: &Schema, on_duty: Arc<AtomicBool>) -> Self {
        Self {
            database,
            try_duty: schema.render(include_str!("../../sql/session/try_duty.sql")),
            take: schema.render(include_str!("../../sql/session/take_bell.sql")),
            leave: schema.render(include_str!("../../sql/session/leave_bell.sql")),
            client: None,
            on_duty,
            held: false,
        }
    }

    /// Whether this relay is on duty, asking for it when it is not.
    pub(crate) async fn is_on_duty(&mut self) -> bool {
        if self.client.as_ref().is_some_and(Client::is_closed) {
            self.forget();
        }
        if self.on_duty.load(Ordering::Acquire) {
            return true;
        }
        match in_time(self.ask_for_duty()).await {
            Ok(granted) => {
                self.on_duty.store(granted, Ordering::Release);
                granted
            }
            Err(error) => {
                tracing::debug!(%error, "the lock connection is down");
                self.forget();
                false
            }
        }
    }

    async fn ask_for_duty(&mut self) -> Result<bool, Error> {
        if self.client.is_none() {
            let client = self.database.clone().with_purpose("locks").connect().await?;
            client.batch_execute(include_str!("../../sql/session/dedicated.sql")).await?;
            self.client = Some(client);
        }
        let client = self.client.as_ref().ok_or_else(gone)?;
        let rows = client.simple_query(&self.try_duty).await?;
        let granted = rows.iter().any(|message| match message {
            tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0) == Some("t"),
            _ => false,
        });
        Ok(granted)
    }

    /// Takes the bell. `false` when a writer that stayed silent is still open.
    pub(crate) async fn take(&mut self) -> Result<bool, Error> {
        let client = self.client.as_ref().ok_or_else(gone)?;
        match in_time(only_text(client, &self.take)).await {
            Ok(Some(read_only)) if read_only == "on" => {
                self.forget();
                let message = "the server of the lock connection takes no writes";
                Err(Error::new(ErrorKind::Unreachable, message))
            }
            Ok(_) => {
                self.held = true;
                Ok(true)
            }
            Err(error) if error.sqlstate() == Some(LOCK_NOT_AVAILABLE) => Ok(false),
            Err(error) => {
                self.forget();
                Err(error)
            }
        }
    }

    /// Lets the bell go, so that writers stay silent again.
    pub(crate) async fn leave(&mut self) {
        if !std::mem::take(&mut self.held) {
            return;
        }
        let Some(client) = self.client.as_ref() else { return };
        let asked = async { Ok(client.batch_execute(&self.leave).await?) };
        if let Err(error) = in_time(asked).await {
            tracing::debug!(%error, "the lock connection broke while the bell was held");
            self.forget();
        }
    }

    /// The connection is gone, and with it every lock.
    pub(crate) fn forget(&mut self) {
        self.client = None;
        self.held = false;
        self.on_duty.store(false, Ordering::Release);
    }
}

/// What `asked` answers, or an error when it takes too long.
async fn in_time<T>(asked: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    tokio::time::timeout(ANSWER_LIMIT, asked).await.unwrap_or_else(|_| {
        let message = "the lock connection does not answer; its socket is half open";
        Err(Error::new(ErrorKind::Unreachable, message))
    })
}

fn gone() -> Error {
    Error::new(ErrorKind::Unreachable, "the lock connection is down")
}
