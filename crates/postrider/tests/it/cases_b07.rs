//! Case B07: a job that ends the process it runs in is given up after its last attempt, and takes
//! no other job with it.

use postrider_testkit::wait_until;

use crate::fixture::{Fixture, PATIENCE};
use crate::process::Process;

#[tokio::test(flavor = "multi_thread")]
async fn b07_a_handler_that_aborts_the_process_is_given_up_and_the_others_are_delivered() {
    let mut fixture = Fixture::new().await;
    fixture.declare(&["a.b", "a.c"]).await;
    let mut process = Process::start(&fixture, "aborts");
    fixture.wait_count("select count(*) from postrider.registration", 2).await;
    fixture.record("a.b", "deadly").await;
    fixture.record_many("a.c", "x", 10).await;
    let mut crashes = 0;
    // The supervisor: it starts the process again whenever it has ended.
    wait_until("every job is finished", PATIENCE, async || {
        if process.has_ended() {
            crashes += 1;
            process = Process::start(&fixture, "aborts");
        }
        let left = "select (select count(*) from postrider.owed) + count(*) from postrider.job";
        let left = fixture.count(left).await;
        (left == 0).then_some(()).ok_or(format!("{left} are not, after {crashes} crashes"))
    })
    .await;
    process.kill();
    let kept = "select last_error from postrider.job_history h
        join postrider.event e on e.seq = h.event_seq and e.subject = 'deadly'
        where h.state = 'discarded' and h.attempt = 3";
    let reason = fixture.texts(kept).await;
    assert!(reason[0].starts_with("attempt 3 of 3 died with its process ("), "{reason:?}");
    assert_eq!(crashes, 3, "one for each attempt");
    let delivered = "select count(*) from postrider.job_history where state = 'completed'";
    assert_eq!(fixture.count(delivered).await, 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fan_out_that_ends_its_process_is_poisoned_and_the_others_are_fanned_out() {
    let mut fixture = Fixture::new().await;
    fixture.declare(&["a.b"]).await;
    fixture.subscription("s", &["a.b"]).await;
    fixture
        .sql(
            "create function wait_for_42() returns trigger language plpgsql as $$
             begin
               if exists (select from postrider.event e
                          where e.seq = new.event_seq and e.subject = 'deadly') then
                 perform pg_advisory_xact_lock_shared(42);
               end if;
               return new;
             end $$;
             create trigger wait before insert on postrider.job
               for each row execute function wait_for_42();
             select pg_advisory_lock(42)",
        )
        .await;
    fixture.record("a.b", "deadly").await;
    fixture.record_many("a.b", "x", 10).await;
    let mut crashes = 0;
    let mut process = Process::start(&fixture, "relays");
    wait_until("the deadly event is poisoned", PATIENCE, async || {
        // Whoever stands in the fan-out of the deadly event dies there.
        let inside = "select count(*) from pg_locks where locktype = 'advisory' and not granted
            and database = (select oid from pg_database where datname = current_database())";
        if fixture.count(inside).await > 0 {
            process.kill();
            crashes += 1;
            let gone = "select pg_terminate_backend(pid) from pg_locks
                where locktype = 'advisory' and not granted and database =
                  (select oid from pg_database where datname = current_database())";
            fixture.sql(gone).await;
            fixture.wait_count(inside, 0).await;
            process = Process::start(&fixture, "relays");
        }
        let poisoned =
            "select count(*) from postrider.fanout_failure where poisoned_at is not null";
        let poisoned = fixture.count(poisoned).await;
        (poisoned == 1).then_some(()).ok_or(format!("not after {crashes} crashes"))
    })
    .await;
    fixture.wait_fanned_out().await;
    process.kill();
    assert_eq!(crashes, 6, "one in the batch, which counts for nobody, and five of its own");
    let reason = fixture.texts("select last_error from postrider.fanout_failure").await;
    assert!(reason[0].contains("the process died in each of 5 attempts"), "{reason:?}");
    assert_eq!(fixture.count("select count(*) from postrider.job").await, 10);
}
