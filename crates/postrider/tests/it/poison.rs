//! Events whose fan-out fails: they hold up no other, are counted, and end where a person sees
//! them.

use std::time::Duration;

use postrider_testkit::wait_until;

use crate::fixture::{Fixture, PATIENCE};

const JOBS: &str = "select count(*) from postrider.job";
const FAILURES: &str = "select count(*) from postrider.fanout_failure";
const POISONED: &str =
    "select count(*) from postrider.fanout_failure where poisoned_at is not null";
const SOON: Duration = Duration::from_millis(10);

/// A database with one type and one subscription, where `statement` is run for each job that is
/// made for an event about `bad`.
async fn with_bad(statement: &str) -> Fixture {
    with_trigger(&format!(
        "if exists (select from postrider.event e where e.seq = new.event_seq and e.subject = 'bad')
         then {statement} end if;"
    ))
    .await
}

/// As `with_bad`, for every job.
async fn with_trigger(body: &str) -> Fixture {
    let fixture = Fixture::new().await;
    fixture.declare(&["a.b"]).await;
    fixture.subscription("s", &["a.b"]).await;
    let sql = format!(
        "create sequence tries;
         create function fail() returns trigger language plpgsql as $$
         begin perform nextval('tries'); {body} return new; end $$;
         create trigger fail before insert on postrider.job
           for each row execute function fail();"
    );
    fixture.sql(&sql).await;
    fixture
}

/// Lets every backend start anew, so that changed settings hold.
async fn restart_sessions(fixture: &Fixture) {
    let sql = "select pg_terminate_backend(pid) from pg_stat_activity
               where datname = current_database() and pid <> pg_backend_pid()";
    fixture.sql(sql).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_fails_holds_up_no_other_and_is_poisoned_after_five_attempts() {
    let mut fixture = with_bad("raise exception 'no job for this one';").await;
    fixture.record("a.b", "good 1").await;
    fixture.record("a.b", "bad").await;
    fixture.record("a.b", "good 2").await;
    let engine = fixture.engine().relay_retry_wait(SOON).start().await.unwrap();
    fixture.wait_count(JOBS, 2).await;
    fixture.wait_count(POISONED, 1).await;
    fixture.record("a.b", "good 3").await;
    fixture.wait_count(JOBS, 3).await;
    engine.shutdown().await;
    let seen = "select attempts || ' ' || (retry_at is null) || ' ' || last_error
                from postrider.fanout_failure";
    assert_eq!(fixture.texts(seen).await, ["5 true no job for this one"]);
    assert_eq!(fixture.count("select count(*) from postrider.fanout").await, 3);
    assert_eq!(fixture.count("select count(*) from postrider.owed").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_single_event_that_fails_with_nothing_else_to_do_is_poisoned_too() {
    let mut fixture = with_bad("raise exception 'no';").await;
    fixture.record("a.b", "bad").await;
    let engine = fixture.engine().relay_retry_wait(SOON).start().await.unwrap();
    fixture.wait_count(POISONED, 1).await;
    engine.shutdown().await;
    // One batch, then five attempts of its own.
    assert_eq!(fixture.count("select last_value from tries").await, 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_attempt_waits_twice_as_long_as_the_one_before() {
    let mut fixture = with_bad("raise exception 'no';").await;
    fixture.record("a.b", "bad").await;
    let unit = Duration::from_secs(1000);
    let engine = fixture.engine().relay_retry_wait(unit).start().await.unwrap();
    let mut shift = 0;
    for attempt in 1..5 {
        let noted = format!(
            "select count(*) from postrider.fanout_failure
             where attempts = {attempt} and last_error is not null"
        );
        fixture.wait_count(&noted, 1).await;
        let wait = format!(
            "select extract(epoch from retry_at - now())::bigint - {shift}
             from postrider.fanout_failure"
        );
        let (wait, due) = (fixture.count(&wait).await, 1000 << (attempt - 1));
        assert!((due - 60..=due).contains(&wait), "attempt {attempt} waits {wait} s, not {due} s");
        engine.advance_clock(Duration::from_secs(10_000));
        shift += 10_000;
    }
    fixture.wait_count(POISONED, 1).await;
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_is_committed_before_it_is_made() {
    let wait = "perform pg_advisory_xact_lock_shared(42); raise exception 'no';";
    let mut fixture = with_bad(wait).await;
    fixture.sql("select pg_advisory_lock(42)").await;
    fixture.record("a.b", "bad").await;
    let engine = fixture.engine().relay_retry_wait(SOON).start().await.unwrap();
    let waiting = "select count(*) from pg_locks where locktype = 'advisory' and not granted
        and database = (select oid from pg_database where datname = current_database())";
    // The first try is that of the batch; then come the event's own.
    for attempts in 0..4_i64 {
        fixture.wait_count(waiting, 1).await;
        let counted = "select coalesce(sum(attempts), 0) from postrider.fanout_failure";
        assert_eq!(fixture.count(counted).await, attempts, "while the try is under way");
        fixture.sql("select pg_advisory_unlock(42); select pg_advisory_lock(42)").await;
    }
    fixture.sql("select pg_advisory_unlock(42)").await;
    fixture.wait_count(POISONED, 1).await;
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_in_each_of_whose_attempts_the_process_died_is_poisoned_with_that_reason() {
    let mut fixture = with_trigger("").await;
    fixture.record("a.b", "deadly").await;
    fixture
        .sql(
            "insert into postrider.fanout_failure
               (seq, occurred_at, tenant, key, attempts, retry_at)
             select seq, occurred_at, '', 'deadly', 5, now() from postrider.owed;
             delete from postrider.owed",
        )
        .await;
    let engine = fixture.engine().start().await.unwrap();
    fixture.wait_count(POISONED, 1).await;
    engine.shutdown().await;
    let reason = fixture.texts("select last_error from postrider.fanout_failure").await;
    assert!(reason[0].contains("the process died in each of 5 attempts"), "{reason:?}");
    assert_eq!(fixture.count("select last_value + is_called::int - 1 from tries").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_kills_its_own_backend_is_counted_while_others_succeed() {
    let kill = "perform pg_terminate_backend(pg_backend_pid()); perform pg_sleep(1);";
    let mut fixture = with_bad(kill).await;
    fixture.record("a.b", "bad").await;
    fixture.record("a.b", "good").await;
    let engine = fixture.engine().relay_retry_wait(SOON).start().await.unwrap();
    fixture.wait_count(JOBS, 1).await;
    wait_until("the deadly event is poisoned", PATIENCE, async || {
        fixture.record("a.b", "good").await;
        (fixture.count(POISONED).await == 1).then_some(()).ok_or("not yet".to_owned())
    })
    .await;
    fixture.wait_fanned_out().await;
    engine.shutdown().await;
    let attempts = "select attempts::bigint from postrider.fanout_failure";
    assert_eq!(fixture.count(attempts).await, 5);
    let missing = "select count(*) from postrider.event e where e.subject = 'good'
                   and not exists (select from postrider.job j where j.event_seq = e.seq)";
    assert_eq!(fixture.count(missing).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_events_that_fail_alike_with_none_succeeding_are_an_outage_and_lose_no_attempt() {
    let fixture = with_trigger("raise exception 'the disk is full';").await;
    fixture.record_many("a.b", "x", 5).await;
    let engine = fixture.engine().relay_retry_wait(SOON).start().await.unwrap();
    // Far more tries than five for each.
    let tries = "select (last_value >= 60)::int::bigint from tries";
    fixture.wait_count(tries, 1).await;
    assert_eq!(fixture.count(POISONED).await, 0);
    fixture.sql("drop trigger fail on postrider.job").await;
    fixture.wait_count(JOBS, 5).await;
    fixture.wait_count(FAILURES, 0).await;
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_table_is_an_outage_even_for_a_single_event() {
    let mut fixture = with_trigger("").await;
    fixture.sql("alter table postrider.job rename to job_away").await;
    fixture.record("a.b", "x").await;
    let engine = fixture.engine().relay_retry_wait(SOON).start().await.unwrap();
    let refunded = "select count(*) from postrider.fanout_failure where attempts = 0";
    fixture.wait_count(refunded, 1).await;
    fixture.sql("alter table postrider.job_away rename to job").await;
    fixture.wait_count(JOBS, 1).await;
    fixture.wait_count(FAILURES, 0).await;
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_timeout_is_an_outage_even_for_a_single_event() {
    let mut fixture = with_trigger("").await;
    let name = fixture.db.name().to_owned();
    fixture.sql(&format!("alter database {name} set lock_timeout = '50ms'")).await;
    let locker = fixture.db.client().await;
    locker.batch_execute("begin; lock table postrider.job in exclusive mode").await.unwrap();
    fixture.record("a.b", "x").await;
    let engine = fixture.engine().relay_retry_wait(SOON).start().await.unwrap();
    let refunded = "select count(*) from postrider.fanout_failure where attempts = 0";
    fixture.wait_count(refunded, 1).await;
    locker.batch_execute("rollback").await.unwrap();
    fixture.wait_count(JOBS, 1).await;
    fixture.wait_count(FAILURES, 0).await;
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_turned_read_only_uses_no_attempt_and_is_taken_up_again() {
    let mut fixture = with_trigger("").await;
    let name = fixture.db.name().to_owned();
    let engine = fixture.engine().relay_retry_wait(SOON).start().await.unwrap();
    fixture.sql(&format!("alter database {name} set default_transaction_read_only = on")).await;
    restart_sessions(&fixture).await;
    fixture.record("a.b", "x").await;
    let looked = "select count(*) from pg_stat_activity where datname = current_database()
                  and application_name = 'postrider' and query like '%owed%'";
    wait_until("the engine has met the read-only database", PATIENCE, async || {
        (fixture.count(looked).await > 0).then_some(()).ok_or("not yet".to_owned())
    })
    .await;
    assert_eq!(fixture.count(JOBS).await, 0);
    fixture.sql(&format!("alter database {name} set default_transaction_read_only = off")).await;
    restart_sessions(&fixture).await;
    fixture.wait_count(JOBS, 1).await;
    fixture.wait_count(FAILURES, 0).await;
    engine.shutdown().await;
}
