//! B08: a unique insert that rolls back must not have told a second one that it is stored.

use postrider::{Enqueued, Error, NewJob, Unique};
use tokio_postgres::IsolationLevel;

use crate::fixture::Fixture;

/// How many backends wait for a transaction to end.
const WAITING: &str = "select count(*) from pg_locks l
    join pg_stat_activity a on a.pid = l.pid and a.datname = current_database()
    where l.locktype = 'transactionid' and not l.granted";

fn job() -> NewJob {
    NewJob::new("k").unwrap().unique(Unique::by_arguments())
}

/// T1 enqueues and waits, T2 enqueues the same, T1 ends; what T2 got, and how many jobs there are.
async fn race(level: IsolationLevel, first_commits: bool) -> (Result<Enqueued, Error>, i64, i64) {
    let fixture = Fixture::new().await;
    fixture.kinds(&["k"]).await;
    let (mut one, mut two) = (fixture.db.client().await, fixture.db.client().await);
    let mut first = one.build_transaction().isolation_level(level).start().await.unwrap();
    let id = fixture.recorder.enqueue(&mut first, &job()).await.unwrap().job_id();
    let recorder = fixture.recorder.clone();
    let second = tokio::spawn(async move {
        let mut second = two.build_transaction().isolation_level(level).start().await?;
        let enqueued = recorder.enqueue(&mut second, &job()).await?;
        second.commit().await?;
        Ok(enqueued)
    });
    fixture.wait_count(WAITING, 1).await;
    match first_commits {
        true => first.commit().await.unwrap(),
        false => first.rollback().await.unwrap(),
    }
    let answer = second.await.unwrap();
    (answer, id, fixture.count("select count(*) from postrider.job").await)
}

#[tokio::test(flavor = "multi_thread")]
async fn b08_after_a_rollback_the_second_is_stored() {
    for level in [IsolationLevel::ReadCommitted, IsolationLevel::RepeatableRead] {
        let (answer, id, jobs) = race(level, false).await;
        let Ok(Enqueued::Inserted(other)) = answer else { panic!("{level:?}: {answer:?}") };
        assert_ne!(other, id, "{level:?}");
        assert_eq!(jobs, 1, "{level:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b08_after_a_commit_the_second_finds_the_first_or_is_told_to_try_again() {
    let (answer, id, jobs) = race(IsolationLevel::ReadCommitted, true).await;
    assert_eq!(answer.unwrap(), Enqueued::Exists(id));
    assert_eq!(jobs, 1);
    let (answer, _, jobs) = race(IsolationLevel::RepeatableRead, true).await;
    let error = answer.unwrap_err();
    assert_eq!((error.sqlstate(), error.is_transient()), (Some("40001"), true), "{error:?}");
    assert_eq!(jobs, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn b08_of_sixteen_that_enqueue_at_once_one_inserts_and_all_name_its_job() {
    let fixture = Fixture::new().await;
    fixture.kinds(&["k"]).await;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..16 {
        let (mut client, recorder) = (fixture.db.client().await, fixture.recorder.clone());
        tasks.spawn(async move { recorder.enqueue(&mut client, &job()).await.unwrap() });
    }
    let answers = tasks.join_all().await;
    let new = answers.iter().filter(|answer| matches!(answer, Enqueued::Inserted(_))).count();
    assert_eq!(new, 1, "{answers:?}");
    assert!(answers.iter().all(|answer| answer.job_id() == answers[0].job_id()), "{answers:?}");
    assert_eq!(fixture.count("select count(*) from postrider.job").await, 1);
}
