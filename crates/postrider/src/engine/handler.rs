//! Handlers: what a subscriber does with a delivery, and what it is given.
//!
//! How it fails: a handler's error, panic or timeout is the end of one attempt, never of the
//! process. Invariant: a handler sees each delivery under exactly one lease; what it writes in its
//! own transaction together with [`Delivery::complete`] happens exactly once.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use postrider_core::{Event, HandlerError, IntoOutcome, Outcome};
use serde_json::value::RawValue;

use crate::{Error, JobLease, Recorder, Transaction};

/// A future on the heap.
pub(crate) type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A handler without its types.
#[derive(Clone)]
pub(crate) enum Handler {
    /// Gets the delivery and answers with an outcome.
    Plain(Arc<dyn Fn(Delivery) -> BoxFuture<'static, Outcome> + Send + Sync>),
    /// Works in a transaction of the engine, which settles the job and commits.
    InTransaction(Arc<TransactionHandler>),
}

/// The function of a handler that works in a transaction of the engine.
pub(crate) type TransactionHandler = dyn for<'a> Fn(
        Delivery,
        &'a tokio_postgres::Transaction<'a>,
    ) -> BoxFuture<'a, Result<Option<Box<RawValue>>, HandlerError>>
    + Send
    + Sync;

impl Handler {
    /// Wraps an async function.
    pub(crate) fn plain<F, Fut>(function: F) -> Self
    where
        F: Fn(Delivery) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: IntoOutcome> + Send + 'static,
    {
        Self::Plain(Arc::new(move |delivery| {
            let future = function(delivery);
            Box::pin(async move { future.await.into_outcome() })
        }))
    }

    /// Whether it holds a pooled connection while it runs.
    pub(crate) fn holds_connection(&self) -> bool {
        matches!(self, Self::InTransaction(_))
    }
}

/// One event on its way to one subscription, as its handler gets it.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// The event.
    pub event: Event,
    /// The name of the subscription.
    pub subscription: Arc<str>,
    /// The number of this attempt, 1 for the first.
    pub attempt: i32,
    /// Whether this delivery repeats the past: a replay or a person's redelivery.
    pub is_replay: bool,
    /// The job and the token under which it is held.
    pub lease: JobLease,
    recorder: Arc<Recorder>,
    completed: Arc<AtomicBool>,
}

impl Delivery {
    pub(crate) fn new(
        event: Event,
        subscription: Arc<str>,
        attempt: i32,
        is_replay: bool,
        lease: JobLease,
        recorder: Arc<Recorder>,
    ) -> Self {
        let completed = Arc::new(AtomicBool::new(false));
        Self { event, subscription, attempt, is_replay, lease, recorder, completed }
    }

    /// Settles this delivery inside `transaction`, in which the handler has done its work: when it
    /// commits, both are there; when it does not, neither is. Call it last, then commit, then
    /// return; the returned outcome no longer matters.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Stale`] when the lease was lost meanwhile. The transaction is aborted
    /// then and cannot commit; return the error.
    ///
    /// ```no_run
    /// # async fn example(delivery: postrider::Delivery, client: &mut tokio_postgres::Client)
    /// # -> Result<(), postrider::HandlerError> {
    /// let mut transaction = client.transaction().await?;
    /// let statement = "insert into ledger (event_id) values ($1)";
    /// transaction.execute(statement, &[&delivery.event.id]).await?;
    /// delivery.complete(&mut transaction).await?;
    /// transaction.commit().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn complete<T: Transaction>(&self, transaction: &mut T) -> Result<(), Error> {
        self.complete_with(transaction, None).await
    }

    /// As [`Delivery::complete`], with an output that is kept with the job.
    ///
    /// # Errors
    /// As [`Delivery::complete`].
    pub async fn complete_with<T: Transaction>(
        &self,
        transaction: &mut T,
        output: Option<&RawValue>,
    ) -> Result<(), Error> {
        self.recorder.complete(transaction, self.lease, output).await?;
        self.completed.store(true, Ordering::Release);
        Ok(())
    }

    /// The mark that [`Delivery::complete`] was called, for the worker.
    pub(crate) fn completed_mark(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.completed)
    }
}
