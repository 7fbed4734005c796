//! An enqueued job as its handler gets it.
//!
//! How it fails: as a delivery: an error, panic or timeout ends one attempt. Invariant: what a
//! handler writes in its own transaction together with [`Job::complete`] happens exactly once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::value::RawValue;
use time::OffsetDateTime;

use crate::{Error, JobLease, Recorder, Transaction};

/// One job that an application or a periodic job enqueued, with arguments of the type `A`.
#[derive(Debug, Clone)]
pub struct Job<A> {
    /// The arguments.
    pub arguments: A,
    /// The kind.
    pub kind: Arc<str>,
    /// Its owner; empty when there is only one.
    pub tenant: String,
    /// What it is about, where that was said.
    pub key: Option<String>,
    /// The tick of the periodic job that enqueued it, where one did.
    pub tick_at: Option<OffsetDateTime>,
    /// The number of this attempt, 1 for the first.
    pub attempt: i32,
    /// The job and the token under which it is held.
    pub lease: JobLease,
    pub(super) recorder: Arc<Recorder>,
    pub(super) completed: Arc<AtomicBool>,
}

impl<A> Job<A> {
    /// The id.
    #[must_use]
    pub fn id(&self) -> i64 {
        self.lease.job_id
    }

    /// Settles this job inside `transaction`, in which the handler has done its work: when it
    /// commits, both are there; when it does not, neither is. Call it last, then commit, then
    /// return; the returned outcome no longer matters.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Stale`] when the lease was lost meanwhile. The transaction is aborted
    /// then and cannot commit; return the error.
    ///
    /// ```no_run
    /// # async fn example(job: postrider::Job<i64>, client: &mut tokio_postgres::Client)
    /// # -> Result<(), postrider::HandlerError> {
    /// let mut transaction = client.transaction().await?;
    /// transaction.execute("update account set balance = balance + $1", &[&job.arguments]).await?;
    /// job.complete(&mut transaction).await?;
    /// transaction.commit().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn complete<T: Transaction>(&self, transaction: &mut T) -> Result<(), Error>
    where
        A: Sync,
    {
        self.complete_with(transaction, None).await
    }

    /// As [`Job::complete`], with an output that is kept with the job.
    ///
    /// # Errors
    /// As [`Job::complete`].
    pub async fn complete_with<T: Transaction>(
        &self,
        transaction: &mut T,
        output: Option<&RawValue>,
    ) -> Result<(), Error>
    where
        A: Sync,
    {
        self.recorder.complete(transaction, self.lease, output).await?;
        self.completed.store(true, Ordering::Release);
        Ok(())
    }

    /// The same job with other arguments.
    pub(super) fn with<B>(self, arguments: B) -> Job<B> {
        Job {
            arguments,
            kind: self.kind,
            tenant: self.tenant,
            key: self.key,
            tick_at: self.tick_at,
            attempt: self.attempt,
            lease: self.lease,
            recorder: self.recorder,
            completed: self.completed,
        }
    }
}
