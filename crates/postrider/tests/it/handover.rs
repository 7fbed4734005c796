//! Jobs that a fan-out starts in the worker of its own process.

use postrider::Delivery;

use crate::fixture::{Fixture, PATIENCE, event_type};
use crate::gate::Gate;
use crate::support::{Seen, eager};

/// Whether job and lease were written by one transaction: the fan-out started the job.
const STARTED: &str = "select count(*) from postrider.job j
    join postrider.lease l on l.token = j.lease_token where j.xmin = l.xmin and j.attempt = 1
      and l.job_ids @> array[j.id] and j.created_at = j.started_at";

/// What a fan-out does that starts its one job, without anybody hearing of it.
const SILENT_START: &str = "
    with leased as (
      insert into postrider.lease (session_id, job_ids, claimed_at)
      select (select id from postrider.session where ended_at is null),
        array[nextval('postrider.job_id_seq')], now()
      returning token, job_ids
    ), taken as (
      delete from postrider.owed returning seq, occurred_at
    ), recorded as (
      insert into postrider.fanout
        (seq, occurred_at, fanned_out_at, routing_version, subscription_ids, job_ids)
      select t.seq, t.occurred_at, now(), 1, array[s.id], l.job_ids
      from taken t, leased l, postrider.subscription s
    )
    insert into postrider.job (id, event_seq, event_occurred_at, due_at, created_at, started_at,
      subscription_id, attempt, state, lease_token, origin, priority, tenant)
    select l.job_ids[1], t.seq, t.occurred_at, now(), now(), now(), s.id, 1, 'running', l.token,
      'fanout', 2, ''
    from taken t, leased l, postrider.subscription s";

#[tokio::test(flavor = "multi_thread")]
async fn a_fan_out_starts_jobs_in_a_worker_that_waits_and_they_settle_like_others() {
    let mut fixture = Fixture::new().await;
    let (seen, gate) = (Seen::default(), Gate::closed());
    let passes = gate.clone();
    let engine = fixture
        .engine()
        .declare(event_type("a.b"))
        .queue("default", 3)
        .subscribe(
            eager("s", &["a.b"], 3),
            seen.then(move |_: Delivery| {
                let passes = passes.clone();
                async move { passes.pass().await }
            }),
        )
        .start()
        .await
        .unwrap();
    // A worker that has just looked may claim a job as well: the first ones may be claimed.
    let mut rounds = 1;
    loop {
        fixture.record("a.b", &format!("x{rounds}")).await;
        seen.wait_for(rounds).await;
        if fixture.count(STARTED).await == 1 {
            break;
        }
        assert!(rounds < 100, "no fan-out started its job");
        gate.let_pass(1);
        fixture.wait_count("select count(*) from postrider.job", 0).await;
        rounds += 1;
    }
    // One of three places is taken: of three more, two run and one waits until there is room.
    for subject in ["y1", "y2", "y3"] {
        fixture.record("a.b", subject).await;
    }
    seen.wait_for(rounds + 2).await;
    fixture.wait_count("select count(*) from postrider.job where state = 'pending'", 1).await;
    assert_eq!(gate.most(), 3, "never more than the limit of the queue");
    gate.open();
    fixture.wait_finished().await;
    engine.shutdown().await;
    let mut subjects = seen.subjects("s");
    subjects.dedup();
    assert_eq!(subjects.len(), rounds + 3, "{subjects:?}");
    assert!(seen.runs().iter().all(|run| run.attempt == 1));
    fixture.wait_count("select count(*) from postrider.lease", 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_subscription_and_one_of_another_process_get_jobs_that_wait() {
    let mut fixture = Fixture::new().await;
    let seen = Seen::default();
    let elsewhere = fixture
        .engine()
        .without_relay()
        .subscribe(eager("elsewhere", &["a.b"], 3), seen.handler())
        .declare(event_type("a.b"))
        .start()
        .await
        .unwrap();
    elsewhere.shutdown().await;
    let engine = fixture
        .engine()
        .subscribe(eager("paused", &["a.b"], 3), seen.handler())
        .start()
        .await
        .unwrap();
    fixture.sql("update postrider.subscription set paused_at = now() where name = 'paused'").await;
    fixture.record("a.b", "x").await;
    fixture.wait_fanned_out().await;
    fixture.wait_count("select count(*) from postrider.job where state = 'pending'", 2).await;
    engine.shutdown().await;
    assert_eq!(seen.runs(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_of_a_fan_out_whose_answer_was_lost_run_with_no_attempt_used() {
    let mut fixture = Fixture::new().await;
    let seen = Seen::default();
    let engine = fixture
        .engine()
        .declare(event_type("a.b"))
        .subscribe(eager("s", &["a.b"], 3), seen.handler())
        .start()
        .await
        .unwrap();
    fixture.record("a.b", "first").await;
    fixture.wait_finished().await;
    let other = fixture.db.client().await;
    other
        .batch_execute("begin; lock table postrider.fanout in access exclusive mode")
        .await
        .unwrap();
    fixture.record("a.b", "second").await;
    let blocked = "select pid from pg_stat_activity where datname = current_database()
        and wait_event_type = 'Lock' and query like '-- Fan-out%'";
    let pid = postrider_testkit::wait_until("a fan-out waits for the lock", PATIENCE, async || {
        let row = fixture.client.query_opt(blocked, &[]).await.unwrap();
        row.map(|row| row.get::<_, i32>(0)).ok_or("none does".to_owned())
    })
    .await;
    // What the fan-out would have committed is there, and the relay never hears of it.
    other.batch_execute(SILENT_START).await.unwrap();
    fixture.client.execute("select pg_terminate_backend($1)", &[&pid]).await.unwrap();
    other.batch_execute("commit").await.unwrap();
    seen.wait_for(2).await;
    fixture.wait_finished().await;
    engine.shutdown().await;
    assert!(seen.runs().iter().all(|run| run.attempt == 1), "{:?}", seen.runs());
    assert_eq!(fixture.count("select count(*) from postrider.lease").await, 0);
}
