//! The line to the server: whether a pooler is on it, and whether a wake-up comes through.
//!
//! How it fails: the database's error. Invariant: the word that is rung means nothing to engines.

use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use super::Finding;
use crate::connect::{Notice, only_text};
use crate::store::{Connection, ServerLook, Store};
use crate::{Database, Error, ErrorKind};

/// How long a wake-up may take before it counts as lost.
const HEARD_WITHIN: Duration = Duration::from_secs(3);
/// A wake-up that takes longer is felt.
const HEARD_SOON: Duration = Duration::from_millis(500);
/// How often to look whether a connection changes its server process.
const LOOKS: usize = 3;
/// How long a second connection may wait for a server process while the first one keeps its own.
const PROCESS_WITHIN: Duration = Duration::from_secs(2);

/// What the connections share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pooling {
    /// Each connection keeps its server process.
    Session,
    /// Each transaction gets one of some server processes.
    Transaction,
    /// Each statement does.
    Statement,
}

/// Looks whether server processes are handed out anew for each transaction.
pub(super) async fn pooling(store: &Store) -> Result<Pooling, Error> {
    let (one, mut other) = (store.connection().await?, store.connection().await?);
    let mut seen: Option<String> = None;
    for _ in 0..LOOKS {
        let first = process(&one).await?;
        if seen.get_or_insert_with(|| first.clone()) != &first {
            return Ok(Pooling::Transaction);
        }
        // While this transaction is open nobody else has its process.
        let refusal = match other.begin().await {
            Ok(held) => {
                let second = process(&held).await?;
                let again = tokio::time::timeout(PROCESS_WITHIN, process(&one)).await;
                held.commit().await?;
                // Without an answer, the one and only process is taken.
                let Ok(again) = again else { return Ok(Pooling::Transaction) };
                if second == first || again? != first {
                    return Ok(Pooling::Transaction);
                }
                continue;
            }
            Err(error) => error,
        };
        // A pooler in statement mode refuses the transaction and hangs up; which of the two is
        // noticed first is chance.
        drop(other);
        let refused = refusal.to_string().contains("statement pooling");
        let hung_up = refusal.kind() == ErrorKind::Unreachable && process(&one).await.is_ok();
        return if refused || hung_up { Ok(Pooling::Statement) } else { Err(refusal) };
    }
    Ok(Pooling::Session)
}

/// The id of the server process behind a connection.
async fn process<C: Connection>(connection: &C) -> Result<String, Error> {
    let asked = include_str!("../../../sql/session/process.sql");
    Ok(only_text(connection.plain(), asked).await?.unwrap_or_default())
}

pub(super) fn pooler(pooling: Pooling, look: &ServerLook, port: u16) -> Finding {
    match pooling {
        Pooling::Statement => {
            let advice = "set its pool_mode to transaction, or name the server itself";
            let found = "a pooler in statement mode is in between: it permits no transactions";
            Finding::problem("pooler", found, advice)
        }
        Pooling::Transaction => {
            let found = "a pooler in transaction mode is in between: no LISTEN and no session \
                         locks through it";
            let advice = "give engines a URL that names the server itself, or run them with \
                          --poll-only";
            Finding::warning("pooler", found, advice)
        }
        Pooling::Session => match look.port {
            Some(theirs) if theirs != i32::from(port) => {
                let found = format!(
                    "port {port} leads to the server's port {theirs} and keeps sessions, which \
                     is as good as none"
                );
                Finding::ok("pooler", found)
            }
            _ => Finding::ok("pooler", "none in between that shares sessions"),
        },
    }
}

/// Listens, rings as a writer does, and measures how long it takes to be heard.
pub(super) async fn wake_up(database: &Database, store: &Store, pooling: Pooling) -> Finding {
    if pooling != Pooling::Session {
        let found = "not possible through the pooler: engines on this URL must poll";
        let advice = "run them with --poll-only, or give them a URL that names the server itself";
        return Finding::warning("wake-up", found, advice);
    }
    match heard_after(database, store).await {
        Ok(Some(took)) => {
            let ms = i64::try_from(took.as_millis()).unwrap_or(i64::MAX);
            let found =
                format!("a notification was heard after {:.1} ms", took.as_secs_f64() * 1e3);
            let finding = if took <= HEARD_SOON {
                Finding::ok("wake-up", found)
            } else {
                let advice = "see whether the server or the network is overloaded";
                Finding::warning("wake-up", found, advice)
            };
            finding.number("heard_after_ms", ms)
        }
        Ok(None) => {
            let found = format!("a notification was not heard within {} s", HEARD_WITHIN.as_secs());
            let advice = "engines find events by looking once a second; see whether the \
                          notification queue is full, or what is between here and the server";
            Finding::problem("wake-up", found, advice)
        }
        Err(error) => {
            let found = format!("could not be tried: {error}");
            Finding::problem("wake-up", found, "see why a connection cannot listen or notify")
        }
    }
}

async fn heard_after(database: &Database, store: &Store) -> Result<Option<Duration>, Error> {
    let word = format!("doctor {}", uuid::Uuid::new_v4());
    let (tell, mut heard) = mpsc::unbounded_channel();
    let connect = database.connect_with(move |notice: Notice| {
        // Nobody waits any more once the time is over.
        let _ = tell.send(notice.payload);
    });
    let (client, driver) = connect.await?;
    let driver = tokio::spawn(driver);
    let listen = include_str!("../../../sql/session/listen.sql")
        .replace("{channel_name}", &store.schema.channel());
    client.batch_execute(&listen).await?;
    let rung = Instant::now();
    store.ring(&word).await?;
    let ours = async { while heard.recv().await.is_some_and(|payload| payload != word) {} };
    let took = tokio::time::timeout(HEARD_WITHIN, ours).await.ok().map(|()| rung.elapsed());
    drop(client);
    driver.abort();
    Ok(took)
}
