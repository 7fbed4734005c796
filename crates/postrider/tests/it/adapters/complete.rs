//! A handler settles its job in its own transaction, with any driver.

use postrider::{Error, ErrorKind, JobLease, Recorder, Transaction};
use serde_json::value::RawValue;

use super::drivers::{Driver, End, Work};
use crate::fixture::Fixture;

/// Does the work of a handler, an entry in a ledger, and settles the job.
struct Handle(Recorder, JobLease);

impl Work for Handle {
    type Output = Result<(), Error>;

    async fn run<T: Transaction>(self, transaction: &mut T) -> Self::Output {
        let entry = "insert into ledger (job_id) values ($1::bigint) returning job_id::text";
        let id = self.1.job_id.to_string();
        assert_eq!(transaction.call(entry, &[Some(&id)]).await.unwrap(), Some(id));
        let output = RawValue::from_string(r#"{"entries": 1}"#.to_owned()).unwrap();
        self.0.complete(transaction, self.1, Some(&output)).await
    }
}

/// A database with a ledger, and a job that somebody runs.
async fn running_job() -> (Fixture, JobLease) {
    let fixture = Fixture::new().await;
    let setup = "
        create table ledger (job_id bigint);
        insert into postrider.session (id, name, version, runs_relay, started_at, expires_at)
        values (gen_random_uuid(), 'test', '0', false, now(), now() + interval '1 minute');
        insert into postrider.job (due_at, created_at, subscription_id, origin, priority, tenant)
        values (now(), now(), 1, 'enqueue', 2, '');
        insert into postrider.lease (session_id, job_ids, claimed_at)
        select session.id, array[job.id], now() from postrider.session, postrider.job;
        update postrider.job set state = 'running', attempt = 1, started_at = now(),
            lease_token = (select token from postrider.lease)";
    fixture.client.batch_execute(setup).await.unwrap();
    let job = "select id, lease_token from postrider.job";
    let row = fixture.client.query_one(job, &[]).await.unwrap();
    (fixture, JobLease { job_id: row.get(0), token: row.get(1) })
}

/// How many entries, running jobs and completed jobs there are.
async fn counts(fixture: &Fixture) -> (i64, i64, i64) {
    let sql = "select (select count(*) from ledger),
        (select count(*) from postrider.job where state = 'running'),
        (select count(*) from postrider.job_history where state = 'completed'
           and output = '{\"entries\": 1}')";
    let row = fixture.client.query_one(sql, &[]).await.unwrap();
    (row.get(0), row.get(1), row.get(2))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_settled_with_the_work_of_its_handler_or_not_at_all_with_any_driver() {
    for driver in Driver::ALL {
        let (fixture, lease) = running_job().await;
        let url = fixture.db.url();
        let handle = |lease: JobLease| Handle(fixture.recorder.clone(), lease);

        driver.run(&url, End::RollBack, handle(lease)).await.unwrap();
        assert_eq!(counts(&fixture).await, (0, 1, 0), "rolled back with {driver:?}");

        let stale = JobLease { token: lease.token - 1, ..lease };
        let error = driver.run(&url, End::Commit, handle(stale)).await.unwrap_err();
        let told = (error.kind(), error.sqlstate(), error.field());
        assert_eq!(told, (ErrorKind::Stale, Some("PR005"), Some("token")), "{driver:?}");
        assert!(error.hint().is_some_and(|hint| hint.ends_with("Roll back.")), "{driver:?}");
        assert_eq!(counts(&fixture).await, (0, 1, 0), "stale, committed with {driver:?}");

        driver.run(&url, End::Commit, handle(lease)).await.unwrap();
        assert_eq!(counts(&fixture).await, (1, 0, 1), "committed with {driver:?}");

        let again = driver.run(&url, End::Commit, handle(lease)).await.unwrap_err();
        assert_eq!(again.kind(), ErrorKind::Stale, "{driver:?}");
        assert_eq!(counts(&fixture).await, (1, 0, 1), "committed again with {driver:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_handlers_that_settle_one_job_at_once_one_succeeds_with_any_driver() {
    for driver in Driver::ALL {
        let (fixture, lease) = running_job().await;
        let url = fixture.db.url();
        let handle = || driver.run(&url, End::Commit, Handle(fixture.recorder.clone(), lease));
        let (one, other) = tokio::join!(handle(), handle());
        assert!(one.is_ok() != other.is_ok(), "{driver:?}: {one:?} and {other:?}");
        let late = one.and(other).unwrap_err();
        assert_eq!(late.kind(), ErrorKind::Stale, "{driver:?}");
        assert_eq!(counts(&fixture).await, (1, 0, 1), "{driver:?}");
    }
}
