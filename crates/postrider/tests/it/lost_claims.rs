//! A claim that the server committed and whose answer never arrived.

use crate::fixture::{Fixture, PATIENCE, event_type};
use crate::support::{Seen, eager};

/// What a claim does, without anybody hearing of it.
const SILENT_CLAIM: &str = "
    with leased as (
      insert into postrider.lease (session_id, job_ids, claimed_at)
      select (select id from postrider.session where ended_at is null), array_agg(id), now()
      from postrider.job returning token)
    update postrider.job set state = 'running', started_at = now(), attempt = attempt + 1,
      lease_token = (select token from leased)";

#[tokio::test(flavor = "multi_thread")]
async fn jobs_of_a_claim_whose_answer_was_lost_go_back_and_run_with_no_attempt_used() {
    let mut fixture = Fixture::new().await;
    let seen = Seen::default();
    let engine = fixture
        .engine()
        .declare(event_type("a.b"))
        .subscribe(eager("s", &["a.b"], 3), seen.handler())
        .start()
        .await
        .unwrap();
    fixture.sql("update postrider.subscription set paused_at = now()").await;
    for subject in ["x", "y", "z"] {
        fixture.record("a.b", subject).await;
    }
    fixture.wait_count("select count(*) from postrider.job", 3).await;
    let other = fixture.db.client().await;
    other
        .batch_execute(&format!(
            "begin; lock table postrider.subscription in access exclusive mode; {SILENT_CLAIM};
             update postrider.subscription set paused_at = null"
        ))
        .await
        .unwrap();
    let blocked = "select pid from pg_stat_activity
        where datname = current_database() and wait_event_type = 'Lock'
          and query like '-- Claims due jobs%'";
    let pid = postrider_testkit::wait_until("a claim waits for the lock", PATIENCE, async || {
        let row = fixture.client.query_opt(blocked, &[]).await.unwrap();
        row.map(|row| row.get::<_, i32>(0)).ok_or("none does".to_owned())
    })
    .await;
    fixture.client.execute("select pg_terminate_backend($1)", &[&pid]).await.unwrap();
    other.batch_execute("commit").await.unwrap();
    fixture.wait_finished().await;
    engine.shutdown().await;
    let mut runs: Vec<(String, i32)> =
        seen.runs().into_iter().map(|run| (run.subject, run.attempt)).collect();
    runs.sort();
    assert_eq!(runs, [("x".into(), 1), ("y".into(), 1), ("z".into(), 1)]);
    assert_eq!(fixture.count("select count(*) from postrider.lease").await, 0);
}
