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
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio_postgres::Transaction as PgTransaction;

use super::job::Job;
use crate::{Error, JobLease, Recorder, Transaction};

/// A future on the heap.
pub(crate) type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What a handler is to do.
#[derive(Debug, Clone)]
pub(crate) enum Work {
    /// An event on its way to a subscription.
    Delivery(Delivery),
    /// A job that an application enqueued.
    Job(Job<Box<RawValue>>),
}

impl Work {
    /// The number of this attempt, the lease, and the mark that it was settled by the handler.
    pub(crate) fn held(&self) -> (i32, JobLease, Arc<AtomicBool>) {
        match self {
            Self::Delivery(delivery) => {
                (delivery.attempt, delivery.lease, Arc::clone(&delivery.completed))
            }
            Self::Job(job) => (job.attempt, job.lease, Arc::clone(&job.completed)),
        }
    }

    /// Settles it inside `transaction`.
    pub(crate) async fn complete_with<T: Transaction>(
        &self,
        transaction: &mut T,
        output: Option<&RawValue>,
    ) -> Result<(), Error> {
        match self {
            Self::Delivery(delivery) => delivery.complete_with(transaction, output).await,
            Self::Job(job) => job.complete_with(transaction, output).await,
        }
    }
}

/// A handler without its types.
#[derive(Clone)]
pub(crate) enum Handler {
    /// Gets the work and answers with an outcome.
    Plain(Arc<dyn Fn(Work) -> BoxFuture<'static, Outcome> + Send + Sync>),
    /// Works in a transaction of the engine, which settles the job and commits.
    InTransaction(Arc<TransactionHandler>),
}

/// How a handler in a transaction of the engine ends: with an output, or an error.
pub(crate) type InTransactionEnd = Result<Option<Box<RawValue>>, HandlerError>;

/// The function of a handler that works in a transaction of the engine.
pub(crate) type TransactionHandler =
    dyn for<'a> Fn(Work, &'a PgTransaction<'a>) -> BoxFuture<'a, InTransactionEnd> + Send + Sync;

/// The error for a row that was changed by hand so that it is not what its handler is for.
fn misplaced(what: &str) -> HandlerError {
    HandlerError::retry(format!("the job is no {what}, which its handler is for"))
}

impl Handler {
    /// Wraps an async function.
    pub(crate) fn plain<F, Fut>(function: F) -> Self
    where
        F: Fn(Delivery) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: IntoOutcome> + Send + 'static,
    {
        Self::Plain(Arc::new(move |work| match work {
            Work::Delivery(delivery) => {
                let future = function(delivery);
                Box::pin(async move { future.await.into_outcome() })
            }
            Work::Job(_) => Box::pin(async { Err::<(), _>(misplaced("delivery")).into_outcome() }),
        }))
    }

    /// Wraps a function that works in a transaction of the engine.
    pub(crate) fn in_transaction<F>(function: F) -> Self
    where
        F: for<'a> Fn(Delivery, &'a PgTransaction<'a>) -> BoxFuture<'a, InTransactionEnd>
            + Send
            + Sync
            + 'static,
    {
        Self::InTransaction(Arc::new(move |work, transaction| match work {
            Work::Delivery(delivery) => function(delivery, transaction),
            Work::Job(_) => Box::pin(async { Err(misplaced("delivery")) }),
        }))
    }

    /// Wraps an async function over typed jobs.
    pub(crate) fn job<A, F, Fut>(function: F) -> Self
    where
        A: DeserializeOwned,
        F: Fn(Job<A>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: IntoOutcome> + Send + 'static,
    {
        Self::Plain(Arc::new(move |work| match typed(work) {
            Ok(job) => {
                let future = function(job);
                Box::pin(async move { future.await.into_outcome() })
            }
            Err(error) => Box::pin(async { Err::<(), _>(error).into_outcome() }),
        }))
    }

    /// Wraps a function over typed jobs that works in a transaction of the engine.
    pub(crate) fn job_in_transaction<A, F>(function: F) -> Self
    where
        A: DeserializeOwned,
        F: for<'a> Fn(Job<A>, &'a PgTransaction<'a>) -> BoxFuture<'a, InTransactionEnd>
            + Send
            + Sync
            + 'static,
    {
        Self::InTransaction(Arc::new(move |work, transaction| match typed(work) {
            Ok(job) => function(job, transaction),
            Err(error) => Box::pin(async { Err(error) }),
        }))
    }

    /// Whether it holds a pooled connection while it runs.
    pub(crate) fn holds_connection(&self) -> bool {
        matches!(self, Self::InTransaction(_))
    }
}

/// The job with its arguments as the type that its handler takes. Arguments of another form are an
/// error that is tried again: during a deployment another process may know them.
fn typed<A: DeserializeOwned>(work: Work) -> Result<Job<A>, HandlerError> {
    let Work::Job(job) = work else { return Err(misplaced("enqueued job")) };
    let arguments = serde_json::from_str(job.arguments.get()).map_err(|error| {
        HandlerError::retry(format!("the arguments are not those of `{}`: {error}", job.kind))
    })?;
    Ok(job.with(arguments))
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
}
