//! Case B03: a rescue that was under way while a job was finished leaves the finished job alone.

use postrider::{Schema, for_tests};
use tokio_postgres::Client;

use crate::fixture::Fixture;
use crate::leases::STATES;

/// The session that was taken for dead, and one that lives.
const DEAD: &str = "00000000-0000-4000-8000-000000000001";
const LIVE: &str = "00000000-0000-4000-8000-000000000002";

/// The text of a statement of the engine.
fn statement(name: &str) -> String {
    let statements = for_tests::statements(&Schema::default());
    statements.into_iter().find(|(known, ..)| *known == name).unwrap().1
}

/// The rescue with a fault point between its look at the leases and its look at the jobs: it waits
/// there for the advisory lock 42.
fn rescue_that_waits() -> String {
    let text = statement("rescue_jobs");
    let waits = "where s.ended_at is not null
      and exists (select from (select pg_advisory_xact_lock_shared(42)) waited)";
    let waiting = text.replace("where s.ended_at is not null", waits);
    assert_ne!(waiting, text, "the fault point is in the statement");
    // Their types are declared by the engine; here they are written out.
    waiting.replace("limit $1", "limit $1::integer").replace("$2 *", "$2::bigint *")
}

/// Two jobs that run under a session that is over, and a rescue that stands at its fault point.
async fn rescue_at_its_fault_point() -> (Fixture, tokio::task::JoinHandle<Client>) {
    let mut fixture = Fixture::new().await;
    fixture.declare(&["a.b"]).await;
    fixture.subscription("s", &["a.b"]).await;
    let relay = fixture.engine().start().await.unwrap();
    fixture.record("a.b", "finished").await;
    fixture.record("a.b", "lost").await;
    fixture.wait_count("select count(*) from postrider.job", 2).await;
    relay.shutdown().await;
    fixture
        .sql(&format!(
            "insert into postrider.session
               (id, name, version, runs_relay, started_at, expires_at, ended_at, end_reason)
             values ('{DEAD}', 'dead', '0', false, now(), now(), now(), 'lost'),
               ('{LIVE}', 'live', '0', false, now(), now() + interval '1 hour', null, null);
             insert into postrider.lease (session_id, job_ids, claimed_at)
               select '{DEAD}', array_agg(id), now() from postrider.job;
             update postrider.job set state = 'running', attempt = 1, started_at = now(),
               lease_token = (select max(token) from postrider.lease);
             select pg_advisory_lock(42)"
        ))
        .await;
    let sweeper = fixture.db.client().await;
    let rescuing = tokio::spawn(async move {
        sweeper.query(&rescue_that_waits(), &[&50_i32, &0_i64]).await.unwrap();
        sweeper
    });
    let waiting = "select count(*) from pg_locks where locktype = 'advisory' and not granted
        and database = (select oid from pg_database where datname = current_database())";
    fixture.wait_count(waiting, 1).await;
    (fixture, rescuing)
}

/// The first job and its token.
async fn first_job(fixture: &Fixture) -> (i64, i64) {
    let sql = "select id, lease_token from postrider.job order by id limit 1";
    let row = fixture.client.query_one(sql, &[]).await.unwrap();
    (row.get(0), row.get(1))
}

#[tokio::test(flavor = "multi_thread")]
async fn b03_a_job_finished_while_the_rescue_was_under_way_stays_as_it_was_finished() {
    let (fixture, rescuing) = rescue_at_its_fault_point().await;
    let (id, token) = first_job(&fixture).await;
    let settle = format!("select postrider.complete({id}, {token})");
    fixture.sql(&settle).await;
    let whole = "select string_agg(h::text, ' ') from postrider.job_history h";
    let before = fixture.texts(whole).await;
    fixture.sql("select pg_advisory_unlock(42)").await;
    rescuing.await.unwrap();
    assert_eq!(fixture.texts(whole).await, before);
    assert_eq!(fixture.texts(STATES).await, ["pending 1", "completed 1"], "the other is rescued");
    let log = format!("select count(*) from postrider.job_attempt where job_id = {id}");
    assert_eq!(fixture.count(&log).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn b03_a_job_claimed_again_while_the_rescue_was_under_way_keeps_its_new_holder() {
    let (fixture, rescuing) = rescue_at_its_fault_point().await;
    let (id, _) = first_job(&fixture).await;
    let claim_again = format!(
        "update postrider.job set state = 'pending', lease_token = null, started_at = null
           where id = {id};
         insert into postrider.lease (session_id, job_ids, claimed_at)
           values ('{LIVE}', array[{id}], now());
         update postrider.job set state = 'running', attempt = 2, started_at = now(),
           lease_token = (select max(token) from postrider.lease) where id = {id}"
    );
    fixture.sql(&claim_again).await;
    let whole = format!("select j::text from postrider.job j where id = {id}");
    let before = fixture.texts(&whole).await;
    fixture.sql("select pg_advisory_unlock(42)").await;
    rescuing.await.unwrap();
    assert_eq!(fixture.texts(&whole).await, before);
    let mut states = fixture.texts(STATES).await;
    states.sort();
    assert_eq!(states, ["pending 1", "running 2"], "the other is rescued");
}
