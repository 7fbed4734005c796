//! The one listening connection of a process.
//!
//! How it fails: a connection that ends, or that does not answer its heartbeat in time, is
//! replaced; meanwhile the relay does not sleep on the bell and the sweep finds what is owed.
//! Invariants: LISTEN comes first and the catch-up look after it; the connection counts as up only
//! once something was heard on it, since behind a pooler in transaction mode nothing ever is; it is
//! never inside a transaction, and never kept to a server that takes no writes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::Client;

use super::health::Part;
use super::wake::{Wakes, Word};
use crate::connect::{Notice, only_text};
use crate::store::Store;
use crate::{Database, Error, ErrorKind};

/// How often the connection is asked whether it lives, and how long it may take to answer. A
/// half-open socket is noticed after at most the sum; a connection that ends, at once.
const HEARTBEAT: Duration = Duration::from_secs(5);
const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(5);
/// What is said when nothing is heard.
const UNHEARD: &str = "nothing is heard on the listening connection; polling. Is a pooler in \
    transaction mode between, or is the notification queue of the server half full?";
/// The waits between attempts to connect again.
const RECONNECT_MIN: Duration = Duration::from_millis(200);
const RECONNECT_MAX: Duration = Duration::from_secs(5);

/// Listens until `stop` turns true.
pub(crate) async fn run(
    database: Database,
    store: Store,
    wakes: Arc<Wakes>,
    on_duty: Arc<AtomicBool>,
    mut stop: watch::Receiver<bool>,
) {
    let mut wait = RECONNECT_MIN;
    while !*stop.borrow() {
        let ended = tokio::select! {
            ended = listen(&database, &store, &wakes, &on_duty, &mut wait) => ended,
            _ = stop.wait_for(|stop| *stop) => break,
        };
        wakes.set_listening(false);
        if let Err(error) = ended {
            tracing::warn!(%error, "the listening connection is down; polling until it is back");
            wakes.vitals.ill(Part::Listener, super::chain(&error));
        }
        tokio::select! {
            () = tokio::time::sleep(wait) => wait = (wait * 2).min(RECONNECT_MAX),
            _ = stop.wait_for(|stop| *stop) => break,
        }
    }
    wakes.set_listening(false);
}

/// One connection from LISTEN to its end.
async fn listen(
    database: &Database,
    store: &Store,
    wakes: &Arc<Wakes>,
    on_duty: &Arc<AtomicBool>,
    wait: &mut Duration,
) -> Result<(), Error> {
    let (told, duty) = (Arc::clone(wakes), Arc::clone(on_duty));
    let database = database.clone().with_purpose("listen");
    let connect = database.connect_with(move |notice: Notice| hear(&notice, &told, &duty));
    let (client, driver) = connect.await?;
    let mut driver = tokio::spawn(driver);
    let listen = store
        .schema
        .render(include_str!("../../sql/session/listen.sql"))
        .replace("{channel_name}", &store.schema.channel());
    let set_up = async {
        client.batch_execute(include_str!("../../sql/session/dedicated.sql")).await?;
        client.batch_execute(&listen).await?;
        takes_writes(&client).await
    };
    answered(&driver, set_up).await?;
    *wait = RECONNECT_MIN;
    // What was said before LISTEN took hold was not heard: look at everything once.
    wakes.everything();
    loop {
        if !wakes.is_listening() {
            // Heard by ourselves, it says that whatever is said will be.
            store.ring("hello").await?;
        }
        tokio::select! {
            () = tokio::time::sleep(HEARTBEAT) => {}
            _ = &mut driver => {
                return Err(Error::new(ErrorKind::Unreachable, "the connection ended"));
            }
        }
        answered(&driver, takes_writes(&client)).await?;
        if !wakes.is_listening() {
            tracing::warn!("{UNHEARD}");
            wakes.vitals.ill(Part::Listener, UNHEARD.to_owned());
        }
    }
}

/// Asks whether the connection lives, and refuses a server that takes no writes: what is recorded
/// elsewhere is not told there.
async fn takes_writes(client: &Client) -> Result<(), Error> {
    let read_only = only_text(client, include_str!("../../sql/session/heartbeat.sql")).await?;
    if read_only.as_deref() == Some("on") {
        let message = "the server of the listening connection takes no writes";
        return Err(Error::new(ErrorKind::Unreachable, message));
    }
    Ok(())
}

/// Waits for an answer as long as one may take, then gives the connection up.
async fn answered(
    driver: &JoinHandle<()>,
    answer: impl Future<Output = Result<(), Error>>,
) -> Result<(), Error> {
    match timeout(HEARTBEAT_TIMEOUT, answer).await {
        Ok(answer) => answer,
        Err(_) => {
            driver.abort();
            Err(silent())
        }
    }
}

fn silent() -> Error {
    let message = "the connection does not answer; its socket is half open";
    Error::new(ErrorKind::Unreachable, message)
}

/// Acts on one notification.
fn hear(notice: &Notice, wakes: &Wakes, on_duty: &AtomicBool) {
    match Word::parse(&notice.payload) {
        // Only the relay on duty sleeps on the bell; the others would only stand in its way.
        Some(Word::Owed) if on_duty.load(Ordering::Acquire) => wakes.relay.notify_one(),
        // The relay wakes too, so that further writers stay silent for a while.
        Some(Word::Enqueued) => {
            wakes.work.notify_one();
            if on_duty.load(Ordering::Acquire) {
                wakes.relay.notify_one();
            }
        }
        Some(Word::Due) => wakes.work.notify_one(),
        Some(Word::Fanned) => wakes.fanned(),
        Some(Word::Help) => wakes.relay.notify_one(),
        Some(Word::Changed) => wakes.everything(),
        Some(Word::Hello) => {
            // A relay that rests without the bell may take it now.
            if !wakes.is_listening() {
                wakes.set_listening(true);
                wakes.relay.notify_one();
            }
            wakes.vitals.well(Part::Listener);
        }
        Some(Word::Owed) | None => {}
    }
}
