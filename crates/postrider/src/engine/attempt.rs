//! One attempt: a handler run in a task of its own, watched by another.
//!
//! How it fails: a panic, a timeout, and being stopped are ends of the attempt like any other.
//! Invariant: every attempt that started sends exactly one [`Finished`].

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use postrider_core::{HandlerError, IntoOutcome, Outcome};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use super::handler::{Delivery, Handler, TransactionHandler};
use super::worker::Registered;
use crate::store::Store;
use crate::{JobLease, Policy};

/// What is needed to run one attempt.
pub(crate) struct Attempt {
    pub(crate) registered: Registered,
    pub(crate) delivery: Delivery,
    /// How many attempts are left after this one.
    pub(crate) attempts_left: i32,
    /// The count of unsettled jobs of the queue, lowered when this one is settled.
    pub(crate) unsettled: Arc<AtomicUsize>,
    /// The count of unsettled jobs of the lease.
    pub(crate) lease_jobs: Arc<AtomicUsize>,
}

/// How an attempt ended.
#[derive(Debug)]
pub(crate) enum End {
    /// The handler said so.
    Outcome(Outcome),
    /// The handler settled the job itself in its own transaction, if that committed.
    SettledItself,
    /// The job was called off, or the process is stopping.
    Stopped,
}

/// An attempt that ended and is to be settled.
pub(crate) struct Finished {
    pub(crate) lease: JobLease,
    pub(crate) attempt: i32,
    pub(crate) attempts_left: i32,
    pub(crate) policy: Policy,
    pub(crate) end: End,
    pub(crate) unsettled: Arc<AtomicUsize>,
    pub(crate) lease_jobs: Arc<AtomicUsize>,
}

impl Finished {
    /// Gives the room of the queue back.
    pub(crate) fn free_room(&self) {
        self.unsettled.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Starts the attempt and returns the handle that stops its handler.
pub(crate) fn start(
    attempt: Attempt,
    store: Store,
    finished: mpsc::UnboundedSender<Finished>,
    ended: mpsc::UnboundedSender<JobLease>,
) -> AbortHandle {
    let Attempt { registered, delivery, attempts_left, unsettled, lease_jobs } = attempt;
    let (lease, number) = (delivery.lease, delivery.attempt);
    let completed = delivery.completed_mark();
    let policy = registered.policy;
    let timeout = policy.timeout();
    let mut handler = match registered.handler {
        Handler::Plain(function) => tokio::spawn(async move { function(delivery).await }),
        Handler::InTransaction(function) => {
            tokio::spawn(async move { in_transaction(&store, delivery, &*function).await })
        }
    };
    let abort = handler.abort_handle();
    tokio::spawn(async move {
        let end = match tokio::time::timeout(timeout, &mut handler).await {
            Ok(Ok(_)) if completed.load(Ordering::Acquire) => End::SettledItself,
            Ok(Ok(outcome)) => End::Outcome(outcome),
            Ok(Err(stopped)) if stopped.is_cancelled() => End::Stopped,
            Ok(Err(panic)) => End::Outcome(Outcome::Retry(panic_text(panic))),
            Err(_) => {
                handler.abort();
                let text = format!("the handler took longer than {} ms", timeout.as_millis());
                End::Outcome(Outcome::Retry(text))
            }
        };
        let done =
            Finished { lease, attempt: number, attempts_left, policy, end, unsettled, lease_jobs };
        // Both channels outlive every attempt unless the process is on its way out.
        let _ = finished.send(done);
        let _ = ended.send(lease);
    });
    abort
}

/// Runs a handler in a transaction of the engine, settles its job in it and commits.
async fn in_transaction(
    store: &Store,
    delivery: Delivery,
    function: &TransactionHandler,
) -> Outcome {
    let work = async {
        let mut connection = store.connection().await?;
        let client: &mut tokio_postgres::Client = &mut connection;
        let mut transaction = client.transaction().await?;
        let output = {
            let borrowed = &transaction;
            function(delivery.clone(), borrowed).await?
        };
        delivery.complete_with(&mut transaction, output.as_deref()).await?;
        transaction.commit().await?;
        Ok::<(), HandlerError>(())
    };
    work.await.into_outcome()
}

/// What a panic said.
fn panic_text(panic: tokio::task::JoinError) -> String {
    let payload = panic.into_panic();
    let said = payload
        .downcast_ref::<&str>()
        .map(ToString::to_string)
        .or_else(|| payload.downcast_ref::<String>().cloned());
    format!("the handler panicked: {}", said.as_deref().unwrap_or("without a text"))
}
