//! One attempt: a handler run in a task of its own, watched by another.
//!
//! How it fails: a panic, a timeout, and being stopped are ends of the attempt like any other.
//! Invariant: every attempt that started sends exactly one [`Finished`].

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use postrider_core::{HandlerError, IntoOutcome, Outcome};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinError;

use super::handler::{Handler, TransactionHandler, Work};
use super::handover::Room;
use crate::JobLease;
use crate::store::{Store, Terms};

/// What is needed to run one attempt.
pub(crate) struct Attempt {
    pub(crate) handler: Handler,
    pub(crate) work: Work,
    /// The policy in force when the job was claimed.
    pub(crate) terms: Arc<Terms>,
    /// How many attempts are left after this one.
    pub(crate) attempts_left: i32,
    /// The room of the queue; the job's place is given back when it is settled.
    pub(crate) room: Arc<Room>,
    /// The count of unsettled jobs of the lease.
    pub(crate) lease_jobs: Arc<AtomicUsize>,
}

/// How an attempt ended.
#[derive(Debug)]
pub(crate) enum End {
    /// The handler said so.
    Outcome(Outcome),
    /// The job was called off, or the process is stopping.
    Stopped,
}

/// An attempt that ended and is to be settled.
pub(crate) struct Finished {
    pub(crate) lease: JobLease,
    pub(crate) attempt: i32,
    pub(crate) attempts_left: i32,
    pub(crate) terms: Arc<Terms>,
    pub(crate) end: End,
    /// Whether the handler settled the job in its own transaction: if that committed, the job is
    /// gone, and finding nothing to settle is no surprise.
    pub(crate) may_be_settled: bool,
    pub(crate) room: Arc<Room>,
    pub(crate) lease_jobs: Arc<AtomicUsize>,
}

impl Finished {
    /// Gives the room of the queue back.
    pub(crate) fn free_room(&self) {
        self.room.give_back(1);
    }
}

/// Starts the attempt. Its handler is stopped when the returned sender is used or dropped; the
/// attempt ends then, whether or not the handler notices.
pub(crate) fn start(
    attempt: Attempt,
    store: Store,
    finished: mpsc::UnboundedSender<Finished>,
    ended: mpsc::UnboundedSender<JobLease>,
) -> oneshot::Sender<()> {
    let Attempt { handler, work, terms, attempts_left, room, lease_jobs } = attempt;
    let (number, lease, completed) = work.held();
    let timeout = terms.timeout;
    let mut running = match handler {
        Handler::Plain(function) => tokio::spawn(async move { function(work).await }),
        Handler::InTransaction(function) => {
            tokio::spawn(async move { in_transaction(&store, work, &*function).await })
        }
    };
    let (stop, stopped) = oneshot::channel();
    tokio::spawn(async move {
        let end = tokio::select! {
            biased;
            joined = &mut running => end_of(joined),
            _ = stopped => End::Stopped,
            () = tokio::time::sleep(timeout) => {
                let text = format!("the handler took longer than {} ms", timeout.as_millis());
                End::Outcome(Outcome::Retry(text))
            }
        };
        running.abort();
        let may_be_settled = completed.load(Ordering::Acquire);
        let end = match end {
            End::Outcome(Outcome::Done(_)) if may_be_settled => {
                // True only if the transaction is gone; otherwise nothing is found to retry.
                End::Outcome(Outcome::Retry("the handler's transaction did not commit".into()))
            }
            end => end,
        };
        let done = Finished {
            lease,
            attempt: number,
            attempts_left,
            terms,
            end,
            may_be_settled,
            room,
            lease_jobs,
        };
        // Both channels outlive every attempt unless the process is on its way out.
        let _ = finished.send(done);
        let _ = ended.send(lease);
    });
    stop
}

/// How a handler that ended by itself ended.
fn end_of(joined: Result<Outcome, JoinError>) -> End {
    match joined {
        Ok(outcome) => End::Outcome(outcome),
        Err(stopped) if stopped.is_cancelled() => End::Stopped,
        Err(panic) => End::Outcome(Outcome::Retry(panic_text(panic))),
    }
}

/// Runs a handler in a transaction of the engine, settles its job in it and commits.
async fn in_transaction(store: &Store, work: Work, function: &TransactionHandler) -> Outcome {
    let done = async {
        let mut link = store.connection().await?;
        // Unless everything is answered in the end, the connection does not go back to the pool.
        let client = link.lend();
        let transaction = client.transaction().await?;
        let done = complete_in(&transaction, work, function).await;
        match done {
            Ok(()) => transaction.commit().await?,
            Err(error) => {
                if transaction.rollback().await.is_ok() {
                    link.is_given_back();
                }
                return Err(error);
            }
        }
        link.is_given_back();
        Ok::<(), HandlerError>(())
    };
    done.await.into_outcome()
}

/// Runs a handler and settles its job in the transaction.
async fn complete_in(
    transaction: &tokio_postgres::Transaction<'_>,
    work: Work,
    function: &TransactionHandler,
) -> Result<(), HandlerError> {
    let output = function(work.clone(), transaction).await?;
    work.complete_with(&mut &*transaction, output.as_deref()).await?;
    Ok(())
}

/// What a panic said.
fn panic_text(panic: JoinError) -> String {
    let payload = panic.into_panic();
    let said = payload
        .downcast_ref::<&str>()
        .map(ToString::to_string)
        .or_else(|| payload.downcast_ref::<String>().cloned());
    format!("the handler panicked: {}", said.as_deref().unwrap_or("without a text"))
}
