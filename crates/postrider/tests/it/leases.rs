//! Leases: whoever lost a job cannot settle it, and a job whose process died runs elsewhere.

use std::sync::Arc;
use std::time::Duration;

use postrider::{Delivery, Subscription};
use postrider_testkit::wait_until;

use crate::fixture::{Fixture, PATIENCE, event_type};
use crate::gate::Gate;
use crate::support::{Seen, eager};

/// Takes every running job away as the rescue does, under a token that nobody else has.
pub(crate) async fn steal(fixture: &Fixture) {
    let sql = "with thief as (
          insert into postrider.session (id, name, version, runs_relay, started_at, expires_at)
          values (gen_random_uuid(), 'thief', '0', false, now(), now() + interval '1 hour')
          returning id),
        lease as (
          insert into postrider.lease (session_id, job_ids, claimed_at)
          select thief.id, array(select j.id from postrider.job j where j.state = 'running'), now()
          from thief returning token)
        update postrider.job set lease_token = lease.token, attempt = attempt + 1 from lease
        where state = 'running'";
    assert!(fixture.client.execute(sql, &[]).await.unwrap() > 0, "something was running");
}

/// A dead process that was running the only owed job.
async fn dead_process(fixture: &Fixture, attempt: i32) {
    let sql = format!(
        "with dead as (
           insert into postrider.session (id, name, version, runs_relay, started_at, expires_at)
           values (gen_random_uuid(), 'host:dead', '0', false, now() - interval '1 minute',
             now() - interval '1 second') returning id),
         lease as (
           insert into postrider.lease (session_id, job_ids, claimed_at)
           select dead.id, array(select id from postrider.job), now() from dead returning token)
         update postrider.job set state = 'running', attempt = {attempt}, started_at = now(),
           lease_token = lease.token from lease"
    );
    fixture.sql(&sql).await;
}

pub(crate) const STATES: &str = "select state || ' ' || attempt from postrider.job
    union all select state || ' ' || attempt from postrider.job_history";

#[tokio::test(flavor = "multi_thread")]
async fn whatever_a_handler_says_after_its_job_was_taken_away_changes_nothing() {
    type Say = fn() -> postrider::Outcome;
    let says: [Say; 4] = [
        || postrider::Outcome::Done(None),
        || postrider::Outcome::Retry("late".into()),
        || postrider::Outcome::Snooze(Duration::from_secs(1)),
        || postrider::Outcome::Discard("late".into()),
    ];
    for say in says {
        let mut fixture = Fixture::new().await;
        let (seen, gate) = (Seen::default(), Gate::closed());
        let waits = gate.clone();
        let handler = seen.then(move |_: Delivery| {
            let gate = waits.clone();
            async move {
                gate.pass().await;
                say()
            }
        });
        let engine = fixture
            .engine()
            .declare(event_type("a.b"))
            .subscribe(Subscription::new("s", ["a.b"]).unwrap(), handler)
            .start()
            .await
            .unwrap();
        fixture.record("a.b", "x").await;
        seen.wait_for(1).await;
        steal(&fixture).await;
        gate.open();
        // The stop waits until the outcome was offered.
        engine.shutdown().await;
        assert_eq!(fixture.texts(STATES).await, ["running 2"]);
        assert_eq!(fixture.count("select count(*) from postrider.job_attempt").await, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_was_taken_for_dead_opens_a_new_session_and_goes_on() {
    let mut fixture = Fixture::new().await;
    let (seen, gate) = (Seen::default(), Gate::closed());
    let waits = gate.clone();
    let handler = seen.then(move |_: Delivery| {
        let gate = waits.clone();
        async move { gate.pass().await }
    });
    let engine = fixture
        .engine()
        .lease(Duration::from_secs(3))
        .declare(event_type("a.b"))
        .subscribe(Subscription::new("s", ["a.b"]).unwrap(), handler)
        .start()
        .await
        .unwrap();
    fixture.record("a.b", "x").await;
    seen.wait_for(1).await;
    let bury = "update postrider.session set ended_at = now(), end_reason = 'lost'";
    assert_eq!(fixture.client.execute(bury, &[]).await.unwrap(), 1);
    // The first run is stopped; the job runs a second time, under the new session.
    seen.wait_for(2).await;
    gate.open();
    fixture.record("a.b", "y").await;
    fixture.wait_finished().await;
    engine.shutdown().await;
    assert_eq!(seen.subjects("s"), ["x", "x", "y"]);
    let by_new = "select count(*) from postrider.job_history h join postrider.session s
                  on s.id = h.session_id where h.state = 'completed' and s.end_reason = 'stopped'";
    assert_eq!(fixture.count(by_new).await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_jobs_of_a_dead_process_run_elsewhere_and_the_lost_attempt_is_kept() {
    let mut fixture = Fixture::new().await;
    fixture.declare(&["a.b"]).await;
    fixture.subscription("s", &["a.b"]).await;
    let relay = fixture.engine().start().await.unwrap();
    fixture.record("a.b", "x").await;
    fixture.wait_count("select count(*) from postrider.job", 1).await;
    relay.shutdown().await;
    dead_process(&fixture, 1).await;
    let seen = Seen::default();
    let engine =
        fixture.engine().subscribe(eager("s", &["a.b"], 5), seen.handler()).start().await.unwrap();
    fixture.wait_finished().await;
    engine.shutdown().await;
    assert_eq!(seen.runs()[0].attempt, 2, "the attempt that died counts");
    let log = "select outcome || ': ' || error from postrider.job_attempt";
    let died = "attempt 1 of 5 died with its process (host:dead)";
    assert_eq!(fixture.texts(log).await, [format!("lost: {died}")]);
    let leases = "select count(*) from postrider.lease";
    assert_eq!(fixture.count(leases).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_process_died_in_its_last_attempt_is_discarded_with_that_reason() {
    let mut fixture = Fixture::new().await;
    fixture.declare(&["a.b"]).await;
    fixture.subscription("s", &["a.b"]).await;
    let engine = fixture.engine().start().await.unwrap();
    fixture.record("a.b", "x").await;
    fixture.wait_count("select count(*) from postrider.job", 1).await;
    dead_process(&fixture, 20).await;
    fixture.wait_count("select count(*) from postrider.job", 0).await;
    engine.shutdown().await;
    let kept = "select state || ': ' || last_error from postrider.job_history";
    let died = "discarded: attempt 20 of 20 died with its process (host:dead)";
    assert_eq!(fixture.texts(kept).await, [died]);
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_that_ended_long_ago_are_not_forgotten_before_their_jobs_are_free() {
    let mut fixture = Fixture::new().await;
    fixture.declare(&["a.b"]).await;
    fixture.subscription("s", &["a.b"]).await;
    let engine = fixture.engine().start().await.unwrap();
    fixture.record("a.b", "x").await;
    fixture.wait_count("select count(*) from postrider.job", 1).await;
    engine.shutdown().await;
    dead_process(&fixture, 1).await;
    let long_ago = "update postrider.session set ended_at = now() - interval '30 days',
                    end_reason = coalesce(end_reason, 'lost')";
    fixture.sql(long_ago).await;
    // Housekeeping and rescue both run when an engine starts, in whatever order.
    let engine = fixture.engine().start().await.unwrap();
    fixture.wait_count("select count(*) from postrider.job where state = 'pending'", 1).await;
    fixture.wait_count("select count(*) from postrider.lease", 0).await;
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rescue_leaves_a_job_alone_that_its_handler_is_settling_and_frees_it_after_a_rollback()
{
    for commits in [true, false] {
        let mut fixture = Fixture::new().await;
        fixture.declare(&["a.b"]).await;
        fixture.subscription("s", &["a.b"]).await;
        let engine = fixture.engine().start().await.unwrap();
        fixture.record("a.b", "x").await;
        fixture.wait_count("select count(*) from postrider.job", 1).await;
        dead_process_settling(&fixture, &engine, commits).await;
        engine.shutdown().await;
    }
}

/// A handler of a dead process has its transaction with `complete` still open.
async fn dead_process_settling(fixture: &Fixture, engine: &postrider::Handle, commits: bool) {
    let settling = fixture.db.client().await;
    let dead = "begin;
        insert into postrider.session (id, name, version, runs_relay, started_at, expires_at)
          values ('00000000-0000-4000-8000-000000000001', 'dead', '0', false, now(),
            now() + interval '1 hour');
        insert into postrider.lease (session_id, job_ids, claimed_at)
          select '00000000-0000-4000-8000-000000000001', array_agg(id), now() from postrider.job;
        update postrider.job set state = 'running', attempt = 1, started_at = now(),
          lease_token = (select max(token) from postrider.lease);
        commit;
        begin;
        select postrider.complete(id, lease_token) from postrider.job;";
    settling.batch_execute(dead).await.unwrap();
    let bury =
        "update postrider.session set ended_at = now(), end_reason = 'lost' where name = 'dead'";
    fixture.sql(bury).await;
    // A second dead process, whose job is free once the rescue has looked at all of them.
    fixture
        .sql(
            "insert into postrider.session
               (id, name, version, runs_relay, started_at, expires_at, ended_at, end_reason)
             values ('00000000-0000-4000-8000-000000000002', 'other', '0', false, now(), now(),
               now(), 'lost');
             insert into postrider.lease (session_id, job_ids, claimed_at)
               values ('00000000-0000-4000-8000-000000000002', '{4711}', now())",
        )
        .await;
    engine.advance_clock(Duration::ZERO);
    fixture.wait_count("select count(*) from postrider.lease", 1).await;
    let running = "select count(*) from postrider.job where state = 'running'";
    assert_eq!(fixture.count(running).await, 1);
    settling.batch_execute(if commits { "commit" } else { "rollback" }).await.unwrap();
    fixture.wait_count("select count(*) from postrider.lease", 0).await;
    let expected = if commits { "completed 1" } else { "pending 1" };
    assert_eq!(fixture.texts(STATES).await, [expected]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_is_dropped_stops_its_handlers_and_claims_nothing_more() {
    let mut fixture = Fixture::new().await;
    let (seen, gate) = (Seen::default(), Gate::closed());
    let alive = Arc::new(());
    let (waits, held) = (gate.clone(), Arc::clone(&alive));
    let handler = seen.then(move |_: Delivery| {
        let (gate, held) = (waits.clone(), Arc::clone(&held));
        async move {
            gate.pass().await;
            drop(held);
        }
    });
    let engine = fixture
        .engine()
        .declare(event_type("a.b"))
        .subscribe(Subscription::new("s", ["a.b"]).unwrap(), handler)
        .start()
        .await
        .unwrap();
    fixture.record("a.b", "x").await;
    seen.wait_for(1).await;
    drop(engine);
    wait_until("nothing of the engine is left", PATIENCE, async || {
        let left = Arc::strong_count(&alive);
        (left == 1).then_some(()).ok_or(format!("{left} references"))
    })
    .await;
    assert_eq!(seen.runs().len(), 1);
}
