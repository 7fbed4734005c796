//! The one listening connection of a process.
//!
//! How it fails: a connection that ends, or that does not answer its heartbeat in time, is
//! replaced; meanwhile the relay does not sleep on the bell and the sweep finds what is owed.
//! Invariants: LISTEN comes first and the catch-up look after it; the connection is never inside a
//! transaction.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::wake::{Wakes, Word};
use crate::connect::Notice;
use crate::{Database, Error, ErrorKind, Schema};

/// How often the connection is asked whether it lives, and how long it may take to answer. A
/// half-open socket is noticed after at most the sum; a connection that ends, at once.
const HEARTBEAT: Duration = Duration::from_secs(5);
const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a new connection may take, greetings included: an address may accept and then be
/// silent.
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// The waits between attempts to connect again.
const RECONNECT_MIN: Duration = Duration::from_millis(200);
const RECONNECT_MAX: Duration = Duration::from_secs(5);

/// Listens until `stop` turns true.
pub(crate) async fn run(
    database: Database,
    schema: Schema,
    wakes: Arc<Wakes>,
    on_duty: Arc<AtomicBool>,
    mut stop: watch::Receiver<bool>,
) {
    let mut wait = RECONNECT_MIN;
    while !*stop.borrow() {
        let ended = tokio::select! {
            ended = listen(&database, &schema, &wakes, &on_duty, &mut wait) => ended,
            _ = stop.wait_for(|stop| *stop) => break,
        };
        wakes.set_listening(false);
        if let Err(error) = ended {
            tracing::warn!(%error, "the listening connection is down; polling until it is back");
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
    schema: &Schema,
    wakes: &Arc<Wakes>,
    on_duty: &Arc<AtomicBool>,
    wait: &mut Duration,
) -> Result<(), Error> {
    let (told, duty) = (Arc::clone(wakes), Arc::clone(on_duty));
    let connect = database.connect_with(move |notice: Notice| hear(&notice, &told, &duty));
    let connected = timeout(CONNECT_MAX, connect).await;
    let (client, driver) = connected.map_err(|_| silent())??;
    let mut driver = tokio::spawn(driver);
    let listen = schema
        .render(include_str!("../../sql/session/listen.sql"))
        .replace("{channel_name}", &schema.channel());
    let set_up = async {
        client.batch_execute(include_str!("../../sql/session/dedicated.sql")).await?;
        client.batch_execute(&listen).await
    };
    answered(&driver, set_up).await?;
    wakes.set_listening(true);
    *wait = RECONNECT_MIN;
    // What was said before LISTEN took hold was not heard: look at everything once.
    wakes.everything();
    loop {
        tokio::select! {
            () = tokio::time::sleep(HEARTBEAT) => {}
            _ = &mut driver => {
                return Err(Error::new(ErrorKind::Unreachable, "the connection ended"));
            }
        }
        let beat = client.batch_execute(include_str!("../../sql/session/heartbeat.sql"));
        answered(&driver, beat).await?;
    }
}

/// Waits for an answer as long as one may take, then gives the connection up.
async fn answered(
    driver: &JoinHandle<()>,
    answer: impl Future<Output = Result<(), tokio_postgres::Error>>,
) -> Result<(), Error> {
    match timeout(HEARTBEAT_TIMEOUT, answer).await {
        Ok(answer) => Ok(answer?),
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
        Some(Word::Owed) | None => {}
    }
}
