//! Case B22: waits and counters at their limits.

use std::time::Duration;

use postrider::admin::{Admin, Retried};
use postrider::{Backoff, Delivery, HandlerError, Policy, Schema, Subscription, for_tests};

use crate::fixture::Fixture;
use crate::support::{Seen, eager};

/// A subscription that retries as the case says.
fn retrying(name: &str, base: Duration) -> Subscription {
    let backoff = Backoff::exponential(base, Duration::from_secs(24 * 3600)).unwrap();
    let policy = Policy { backoff, ..Policy::default() };
    Subscription::new(name, ["a.b"]).unwrap().policy(policy)
}

#[tokio::test(flavor = "multi_thread")]
async fn b22_at_any_count_of_attempts_the_next_try_is_in_the_future_and_within_the_cap() {
    let fixture = Fixture::new().await;
    fixture.declare(&["a.b"]).await;
    let relay = fixture
        .engine()
        .subscribe(retrying("second", Duration::from_secs(1)), async |_: Delivery| ())
        .subscribe(retrying("hour", Duration::from_secs(3600)), async |_: Delivery| ())
        .start()
        .await
        .unwrap();
    fixture.sql("update postrider.subscription set paused_at = now()").await;
    let counts = [40, 64, 310, 1023, 1024, 32_767, 2_147_483_646, 2_147_483_647];
    for count in counts {
        let sql = format!("select postrider.record('a.b', '{count}')");
        fixture.sql(&sql).await;
    }
    fixture.wait_count("select count(*) from postrider.job", 16).await;
    relay.shutdown().await;
    fixture
        .sql(
            "update postrider.job j set attempt = e.subject::integer, extra_attempts = 2147483647
             from postrider.event e where e.seq = j.event_seq;
             update postrider.subscription set paused_at = null",
        )
        .await;
    let failing = async |_: Delivery| Err::<(), HandlerError>("no".into());
    let engine = fixture
        .engine()
        .subscribe(retrying("second", Duration::from_secs(1)), failing)
        .subscribe(retrying("hour", Duration::from_secs(3600)), failing)
        .start()
        .await
        .unwrap();
    // What can still count goes on, with the next try at most a day away and ten percent.
    let waits = "select count(*) from postrider.job j
        join postrider.job_attempt a on a.job_id = j.id and a.outcome = 'retry'
        where j.state = 'pending' and j.due_at > a.finished_at
          and j.due_at <= a.finished_at + interval '26.4 hours'
          and j.attempt = (select e.subject::integer + 1 from postrider.event e
                           where e.seq = j.event_seq)";
    fixture.wait_count(waits, 12).await;
    // What cannot is given up with its error, and holds up no other.
    let given_up = "select count(*) from postrider.job_history
        where state = 'discarded' and attempt = 2147483647 and last_error = 'no'";
    fixture.wait_count(given_up, 4).await;
    // A person may bring even that back; it is tried once more.
    let admin = Admin::connect(&fixture.database(), &Schema::default()).await.unwrap();
    let id = fixture.count("select max(id) from postrider.job_history").await;
    assert_eq!(admin.retry_job(id).await.unwrap(), Retried::Revived);
    fixture.wait_count(given_up, 4).await;
    assert!(admin.job(id).await.unwrap().is_some());
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b22_a_dead_process_at_the_largest_counters_is_rescued_from() {
    let mut fixture = Fixture::new().await;
    fixture.declare(&["a.b"]).await;
    fixture.subscription("s", &["a.b"]).await;
    let engine = fixture.engine().start().await.unwrap();
    fixture.record("a.b", "x").await;
    fixture.wait_count("select count(*) from postrider.job", 1).await;
    fixture
        .sql(
            "with dead as (
               insert into postrider.session (id, name, version, runs_relay, started_at,
                 expires_at, ended_at, end_reason)
               values (gen_random_uuid(), 'dead', '0', false, now(), now(), now(), 'lost')
               returning id),
             lease as (
               insert into postrider.lease (session_id, job_ids, claimed_at)
               select dead.id, array(select id from postrider.job), now() from dead
               returning token)
             update postrider.job set state = 'running', attempt = 2147483646, started_at = now(),
               extra_attempts = 2147483647, lease_token = lease.token from lease",
        )
        .await;
    engine.maintain().await.unwrap();
    let free = "select count(*) from postrider.job where state = 'pending'";
    fixture.wait_count(free, 1).await;
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b22_an_event_whose_count_of_fan_outs_cannot_grow_holds_up_no_relay() {
    let mut fixture = Fixture::new().await;
    fixture.declare(&["a.b"]).await;
    fixture.subscription("s", &["a.b"]).await;
    fixture.record("a.b", "stuck").await;
    fixture
        .sql(
            "with taken as (delete from postrider.owed returning seq, occurred_at)
             insert into postrider.fanout_failure
               (seq, occurred_at, tenant, key, attempts, retry_at)
             select seq, occurred_at, '', 'k', 2147483647, now() from taken",
        )
        .await;
    let engine = fixture.engine().start().await.unwrap();
    let poisoned = "select count(*) from postrider.fanout_failure where poisoned_at is not null";
    fixture.wait_count(poisoned, 1).await;
    fixture.record("a.b", "good").await;
    fixture.wait_count("select count(*) from postrider.job", 1).await;
    engine.shutdown().await;
}

/// Sets how often to reschedule. The case says 40,000, which takes minutes; an everyday run does a
/// part of it.
const SNOOZES_VARIABLE: &str = "POSTRIDER_IT_SNOOZES";

#[tokio::test(flavor = "multi_thread")]
async fn b22_thousands_of_snoozes_use_no_attempt_and_overflow_nothing() {
    let times: i64 = std::env::var(SNOOZES_VARIABLE).map_or(3_000, |times| times.parse().unwrap());
    let mut fixture = Fixture::new().await;
    fixture.declare(&["a.b"]).await;
    fixture.subscription("s", &["a.b"]).await;
    let relay = fixture.engine().start().await.unwrap();
    fixture.record("a.b", "x").await;
    fixture.wait_count("select count(*) from postrider.job", 1).await;
    relay.shutdown().await;
    let statements = for_tests::statements(&Schema::default());
    let text = |name: &str| {
        let (_, text, _) = statements.iter().find(|(known, ..)| *known == name).unwrap();
        text.replace("$1", "$1::uuid")
    };
    let settle = statements.iter().find(|(name, ..)| *name == "settle_pending").unwrap();
    // The engine's own statements, in a loop in the server: a claim and a snooze each time.
    let snoozes = format!(
        "insert into postrider.session (id, name, version, runs_relay, started_at, expires_at)
           values ('00000000-0000-4000-8000-000000000001', 'hand', '0', false, now(),
             now() + interval '1 hour');
         create procedure snooze(times integer) language plpgsql as $body$
         declare
           session uuid := '00000000-0000-4000-8000-000000000001';
           claimed record;
         begin
           for n in 1..times loop
             execute $claim${}$claim$ into claimed using session, (select array_agg(id) from
               postrider.subscription), 1::bigint, 0::bigint,
               array_fill(clock_timestamp() - interval '1 second', '{{4}}');
             if claimed.attempt <> 1 then
               raise 'attempt %', claimed.attempt;
             end if;
             execute $settle${}$settle$ using array[claimed.id], array[claimed.lease_token],
               array[0::bigint], array['snoozed'], array[null::text], session, 0::bigint;
             delete from postrider.lease;
             if n % 50 = 0 then commit; end if;
           end loop;
         end $body$",
        text("claim_jobs"),
        settle.1
    );
    fixture.sql(&snoozes).await;
    fixture.sql(&format!("call snooze({times})")).await;
    let snoozed = "select count(*) from postrider.job_attempt where outcome = 'snoozed'";
    assert_eq!(fixture.count(snoozed).await, times);
    let seen = Seen::default();
    let engine =
        fixture.engine().subscribe(eager("s", &["a.b"], 1), seen.handler()).start().await.unwrap();
    fixture.wait_finished().await;
    let admin = Admin::connect(&fixture.database(), &Schema::default()).await.unwrap();
    let job = fixture.count("select id from postrider.job_history").await;
    let detail = admin.job(job).await.unwrap().unwrap();
    assert!(detail.attempts.len() <= 1_001, "a person is shown a bounded part of them");
    engine.shutdown().await;
    let states = "select state || ' ' || attempt from postrider.job_history";
    assert_eq!(fixture.texts(states).await, ["completed 1"]);
}
