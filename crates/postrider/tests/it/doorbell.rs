//! The doorbell: writers notify when somebody sleeps, and only then.

use std::time::Duration;

use postrider::EngineBuilder;
use postrider_testkit::wait_until;

use crate::ear::Ear;
use crate::fixture::{Fixture, PATIENCE};

/// Long enough that nothing in these tests is found by looking without being woken.
const NEVER: Duration = Duration::from_secs(3600);

fn sleepy(fixture: &Fixture) -> EngineBuilder {
    fixture.engine().poll_interval(NEVER)
}

/// Which backends hold (or wait for) a lock of the schema.
fn holders(key: &str, granted: bool) -> String {
    format!(
        "select l.pid::bigint from pg_locks l, postrider.wake_keys() k
         where l.locktype = 'advisory' and l.granted = {granted} and l.objsubid = 1
           and l.mode = 'ExclusiveLock'
           and l.database = (select oid from pg_database where datname = current_database())
           and (l.classid::bigint << 32) | l.objid::bigint = k.{key}"
    )
}

/// Waits until a backend holds the lock and returns it.
async fn held(fixture: &Fixture, key: &str) -> i64 {
    wait_until("the lock is held", PATIENCE, async || {
        let rows = fixture.client.query(&holders(key, true), &[]).await.unwrap();
        rows.first().map(|row| row.get(0)).ok_or(format!("nobody holds {key}"))
    })
    .await
}

async fn one_subscription() -> Fixture {
    let fixture = Fixture::new().await;
    fixture.declare(&["a.b"]).await;
    fixture.subscription("s", &["a.b"]).await;
    fixture
}

#[tokio::test(flavor = "multi_thread")]
async fn a_single_event_wakes_the_relay_that_sleeps() {
    let mut fixture = one_subscription().await;
    let engine = sleepy(&fixture).start().await.unwrap();
    for count in 1..=3 {
        held(&fixture, "bell").await;
        let mut ear = Ear::new(&fixture).await;
        fixture.record("a.b", "x").await;
        fixture.wait_count("select count(*) from postrider.job", count).await;
        let words = ear.heard().await;
        assert_eq!(words, ["owed", "fanned"], "one ring, one answer without ids");
    }
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_says_nothing_while_nobody_sleeps() {
    let mut fixture = one_subscription().await;
    let mut ear = Ear::new(&fixture).await;
    fixture.record("a.b", "x").await;
    assert!(ear.heard().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_rings_while_the_bell_is_held_unless_it_was_told_not_to() {
    let mut fixture = one_subscription().await;
    let mut ear = Ear::new(&fixture).await;
    let sleeper = fixture.db.client().await;
    let take = "select pg_advisory_lock(bell) from postrider.wake_keys()";
    sleeper.batch_execute(take).await.unwrap();
    fixture.record("a.b", "x").await;
    assert_eq!(ear.heard().await, ["owed"]);
    fixture.record_many("a.b", "x", 10).await;
    assert_eq!(ear.heard().await, ["owed"], "once for a transaction");
    fixture
        .sql("begin; set local postrider.wake = off; select postrider.record('a.b', 'y'); commit")
        .await;
    assert!(ear.heard().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn one_relay_is_on_duty_and_another_takes_over_when_it_is_gone() {
    let mut fixture = one_subscription().await;
    let first = fixture.engine().start().await.unwrap();
    let on_duty = held(&fixture, "duty").await;
    let second = fixture.engine().start().await.unwrap();
    let third = fixture.engine().start().await.unwrap();
    let count = format!("select count(*) from ({}) held", holders("duty", true));
    assert_eq!(fixture.count(&count).await, 1);
    first.shutdown().await;
    let next = held(&fixture, "duty").await;
    assert_ne!(next, on_duty);
    let kill = format!("select pg_terminate_backend({next}::int)");
    fixture.sql(&kill).await;
    wait_until("another backend is on duty", PATIENCE, async || {
        let now = held(&fixture, "duty").await;
        (now != next).then_some(()).ok_or("not yet".to_owned())
    })
    .await;
    assert_eq!(fixture.count(&count).await, 1);
    fixture.record("a.b", "x").await;
    fixture.wait_count("select count(*) from postrider.job", 1).await;
    second.shutdown().await;
    third.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_that_stays_silent_and_open_makes_the_relay_miss_nothing_and_blocks_nobody() {
    let mut fixture = one_subscription().await;
    let silent = fixture.db.client().await;
    let record = "begin; select postrider.record('a.b', 'silent')";
    silent.batch_execute(record).await.unwrap();
    let engine = sleepy(&fixture).start().await.unwrap();
    fixture.record("a.b", "other").await;
    fixture.wait_count("select count(*) from postrider.job", 1).await;
    let asleep = format!("select count(*) from ({}) held", holders("bell", true));
    assert_eq!(fixture.count(&asleep).await, 0, "the bell is not had while it is open");
    silent.batch_execute("commit").await.unwrap();
    fixture.wait_count("select count(*) from postrider.job", 2).await;
    held(&fixture, "bell").await;
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn writers_say_nothing_while_the_relay_that_was_woken_is_at_work() {
    let mut fixture = one_subscription().await;
    fixture
        .sql(
            "create function wait_for_42() returns trigger language plpgsql as $$
             begin
               if exists (select from postrider.event where seq = new.event_seq and subject = 'x2')
               then perform pg_advisory_xact_lock_shared(42); end if;
               return new;
             end $$;
             create trigger wait before insert on postrider.job
               for each row execute function wait_for_42();
             select pg_advisory_lock(42);",
        )
        .await;
    let engine = sleepy(&fixture).relay_batch(1).start().await.unwrap();
    held(&fixture, "bell").await;
    // One event wakes it, the next one keeps it at work.
    fixture.record_many("a.b", "x", 2).await;
    let inside = "select count(*) from pg_locks where locktype = 'advisory' and not granted
        and database = (select oid from pg_database where datname = current_database())";
    fixture.wait_count(inside, 1).await;
    let mut ear = Ear::new(&fixture).await;
    for _ in 0..5 {
        fixture.record("a.b", "y").await;
    }
    assert!(!ear.heard().await.contains(&"owed".to_owned()));
    fixture.sql("select pg_advisory_unlock(42)").await;
    fixture.wait_count("select count(*) from postrider.job", 7).await;
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_idles_holds_no_transaction_and_keeps_no_snapshot() {
    let fixture = one_subscription().await;
    let one = sleepy(&fixture).start().await.unwrap();
    let two = sleepy(&fixture).start().await.unwrap();
    held(&fixture, "bell").await;
    let ours = "select count(*) from pg_stat_activity
                where datname = current_database() and application_name like 'postrider%'";
    assert!(fixture.count(ours).await >= 4, "pools, listeners and a lock connection");
    // A statement of maintenance may run at any moment; none of them stays.
    let busy = format!(
        "{ours} and (state <> 'idle' or backend_xmin is not null or backend_xid is not null)"
    );
    fixture.wait_count(&busy, 0).await;
    let open = format!("{ours} and state like 'idle in transaction%'");
    assert_eq!(fixture.count(&open).await, 0);
    one.shutdown().await;
    two.shutdown().await;
}
