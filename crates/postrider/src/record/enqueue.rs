//! Enqueueing: a job is written in the caller's transaction, with any driver.
//!
//! How it fails: [`Error`] with a kind that says what was refused; a refusal by the database leaves
//! the caller's transaction aborted. Invariants: one round trip for a call; the SQL functions
//! `enqueue` and `enqueue_many` are the contract, this adds types.

use std::time::Duration;

use postrider_core::{NewJob, Unique};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::{Recorder, Transaction, to_json};
use crate::{Error, ErrorKind};

/// Arguments that belong to one kind of jobs.
///
/// ```
/// use postrider::JobArguments;
/// #[derive(serde::Serialize, serde::Deserialize)]
/// struct Receipt { order_id: i64 }
/// impl JobArguments for Receipt {
///     const KIND: &'static str = "mail.receipt";
/// }
/// let job = Receipt { order_id: 42 }.job()?.delay(std::time::Duration::from_secs(60));
/// assert_eq!(job.arguments.get(), r#"{"order_id":42}"#);
/// # Ok::<(), postrider::Error>(())
/// ```
///
/// A handler of [`Kind::of`](crate::Kind) gets them back as the same type.
pub trait JobArguments: Serialize + DeserializeOwned {
    /// The kind, such as `mail.receipt`.
    const KIND: &'static str;

    /// The job with these arguments.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] when the name of the kind or the arguments break a rule.
    fn job(&self) -> Result<NewJob, Error>
    where
        Self: Sized,
    {
        Ok(NewJob::new(Self::KIND)?.arguments(self)?)
    }
}

/// What enqueueing a job came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case", tag = "result", content = "job_id")]
pub enum Enqueued {
    /// It is there under this id.
    Inserted(i64),
    /// The job of this id stands for it: it runs after the caller's transaction has ended.
    Exists(i64),
    /// The job of this id stands for it, and has its arguments and a new time now.
    Replaced(i64),
}

impl Enqueued {
    /// The id of the job that does the work.
    #[must_use]
    pub fn job_id(self) -> i64 {
        match self {
            Self::Inserted(id) | Self::Exists(id) | Self::Replaced(id) => id,
        }
    }

    /// Reads `id result`.
    fn parse(text: &str) -> Result<Self, Error> {
        let read = text.split_once(' ').and_then(|(id, result)| {
            let id = id.parse().ok()?;
            match result {
                "inserted" => Some(Self::Inserted(id)),
                "exists" => Some(Self::Exists(id)),
                "replaced" => Some(Self::Replaced(id)),
                _ => None,
            }
        });
        read.ok_or_else(|| {
            Error::new(ErrorKind::Bug, format!("`enqueue` answered {text:?}"))
                .with_hint("report it with the versions of Postrider and PostgreSQL")
        })
    }
}

impl Recorder {
    /// Enqueues one job.
    ///
    /// With [`NewJob::unique`], a second call waits while another transaction is about to enqueue
    /// the same: it then finds that job, or none of it after a rollback. At REPEATABLE READ and
    /// above it may fail instead with an error that is transient ([`Error::is_transient`]): run the
    /// whole transaction again.
    ///
    /// # Errors
    /// [`ErrorKind::UndeclaredKind`], [`ErrorKind::Invalid`] or [`ErrorKind::TooLarge`] for what
    /// the job is; [`ErrorKind::Schema`], [`ErrorKind::Unreachable`] or [`ErrorKind::Database`] for
    /// the rest.
    ///
    /// ```no_run
    /// # #[cfg(feature = "tokio-postgres")]
    /// # async fn example(client: &mut tokio_postgres::Client) -> Result<(), postrider::Error> {
    /// use postrider::{Enqueued, NewJob, Recorder, Unique};
    /// let arguments = serde_json::json!({"customer": 7});
    /// let job = NewJob::new("report.refresh")?.arguments(&arguments)?;
    /// let job = job.unique(Unique::by_arguments());
    /// match Recorder::default().enqueue(client, &job).await? {
    ///     Enqueued::Inserted(id) => println!("job {id} will do it"),
    ///     other => println!("job {} waits and will do it", other.job_id()),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn enqueue<T: Transaction>(
        &self,
        transaction: &mut T,
        job: &NewJob,
    ) -> Result<Enqueued, Error> {
        let texts = Texts::of(job)?;
        let params = [
            Some(job.kind.as_str()),
            Some(job.arguments.get()),
            texts.run_at.as_deref(),
            texts.delay.as_deref(),
            job.priority.map(postrider_core::Priority::as_str),
            texts.max_attempts.as_deref(),
            Some(job.tenant.as_str()),
            job.key.as_deref(),
            texts.unique_by.as_deref(),
            texts.unique_states.as_deref(),
            texts.unique_for.as_deref(),
            texts.debounce.as_deref(),
            texts.debounce_max.as_deref(),
        ];
        let answer = transaction.call(&self.enqueue, &params).await?;
        Enqueued::parse(&answer.unwrap_or_default())
    }

    /// Enqueues up to 10,000 jobs in order, all or none, and says what became of each, in the same
    /// order.
    ///
    /// # Errors
    /// As [`Recorder::enqueue`]; the message names the place of the job in the batch, from 1.
    pub async fn enqueue_many<T: Transaction>(
        &self,
        transaction: &mut T,
        jobs: &[NewJob],
    ) -> Result<Vec<Enqueued>, Error> {
        let mut batch = Vec::with_capacity(jobs.len());
        for (place, job) in (1..).zip(jobs) {
            batch.push(BatchJob::of(job).map_err(|error| {
                let message = format!("job {place} of the batch: {error}");
                let field = error.field().unwrap_or("jobs").to_owned();
                Error::new(error.kind(), message).with_field(field)
            })?);
        }
        let batch = to_json(&batch)?;
        let answer = transaction.call(&self.enqueue_many, &[Some(&batch)]).await?;
        answer.unwrap_or_default().split_terminator(',').map(Enqueued::parse).collect()
    }
}

/// The optional parts of a job as the texts that the SQL function takes.
#[derive(Default)]
struct Texts {
    run_at: Option<String>,
    delay: Option<String>,
    max_attempts: Option<String>,
    unique_by: Option<String>,
    unique_states: Option<String>,
    unique_for: Option<String>,
    debounce: Option<String>,
    debounce_max: Option<String>,
}

impl Texts {
    fn of(job: &NewJob) -> Result<Self, Error> {
        job.check()?;
        let mut texts = Self {
            run_at: job.run_at_text()?,
            delay: job.delay.map(interval),
            max_attempts: job.max_attempts.map(|attempts| attempts.to_string()),
            ..Self::default()
        };
        if let Some(unique) = &job.unique {
            let debounced = unique.debounced();
            texts.unique_by = Some(array(unique.names().iter().map(String::as_str)));
            texts.unique_states = Some(array(states(unique)));
            texts.unique_for = unique.period().map(interval);
            texts.debounce = debounced.map(|(wait, _)| interval(wait));
            texts.debounce_max = debounced.map(|(_, longest)| interval(longest));
        }
        Ok(texts)
    }
}

/// One job of a batch, with the field names of `enqueue_many`.
#[derive(Serialize)]
struct BatchJob<'a> {
    kind: &'a str,
    arguments: &'a RawValue,
    tenant: &'a str,
    #[serde(flatten)]
    options: serde_json::Map<String, serde_json::Value>,
}

impl<'a> BatchJob<'a> {
    fn of(job: &'a NewJob) -> Result<Self, Error> {
        let texts = Texts::of(job)?;
        let mut options = serde_json::Map::new();
        let mut put = |name: &str, value: Option<serde_json::Value>| {
            options.extend(value.map(|value| (name.to_owned(), value)));
        };
        put("run_at", texts.run_at.map(Into::into));
        put("delay", texts.delay.map(Into::into));
        put("priority", job.priority.map(|priority| priority.as_str().into()));
        put("max_attempts", job.max_attempts.map(Into::into));
        put("key", job.key.as_deref().map(Into::into));
        put("unique_by", job.unique.as_ref().map(|unique| unique.names().into()));
        let named = |unique: &Unique| states(unique).collect::<Vec<_>>().into();
        put("unique_states", job.unique.as_ref().map(named));
        put("unique_for", texts.unique_for.map(Into::into));
        put("debounce", texts.debounce.map(Into::into));
        put("debounce_max", texts.debounce_max.map(Into::into));
        Ok(Self { kind: &job.kind, arguments: &job.arguments, tenant: &job.tenant, options })
    }
}

fn states(unique: &Unique) -> impl Iterator<Item = &'static str> {
    unique.states().iter().map(|state| state.as_str())
}

/// A time span as PostgreSQL reads it.
fn interval(span: Duration) -> String {
    format!("{} microseconds", span.as_micros())
}

/// An array of texts as PostgreSQL reads it.
fn array<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    let quoted =
        texts.map(|text| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")));
    format!("{{{}}}", quoted.collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_and_backslashes_in_names_of_arguments_are_escaped() {
        assert_eq!(array(["a\\", "b\"c", "d,}"].into_iter()), r#"{"a\\","b\"c","d,}"}"#);
        assert_eq!(array([].into_iter()), "{}");
    }

    #[test]
    fn an_answer_that_cannot_be_read_is_a_bug_and_not_a_guess() {
        assert_eq!(Enqueued::parse("7 exists").expect("known"), Enqueued::Exists(7));
        for odd in ["", "7", "x exists", "7 eaten"] {
            assert_eq!(Enqueued::parse(odd).expect_err(odd).kind(), ErrorKind::Bug);
        }
    }
}
