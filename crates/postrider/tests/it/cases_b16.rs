//! Case B16: only the database's clock counts. The processes run five minutes behind and ahead.

use postrider_testkit::wait_until;

use crate::fixture::{Fixture, PATIENCE};
use crate::process::Process;

/// A boolean as a number, to be waited for.
fn holds(condition: &str) -> String {
    format!("select ({condition})::integer::bigint")
}

async fn skewed_by(offset: &str) {
    let mut fixture = Fixture::new().await;
    fixture.declare(&["a.b"]).await;
    let mut process = Process::start_with_clock(&fixture, "skewed", offset);
    wait_until("the skewed process handles deliveries", PATIENCE, async || {
        let found = fixture.count("select count(*) from postrider.registration").await;
        let ended = process.has_ended();
        (found == 1).then_some(()).ok_or(format!("it does not; it has ended: {ended}"))
    })
    .await;
    for subject in ["passes", "fails", "holds"] {
        fixture.record("a.b", subject).await;
    }
    // The first try comes at once: five minutes of skew would be far beyond any patience here.
    let completed = "select count(*) from postrider.job_history where state = 'completed'";
    fixture.wait_count(completed, 1).await;
    let waits = "select count(*) from postrider.job j
        join postrider.job_attempt a on a.job_id = j.id
        where j.state = 'pending' and j.due_at - a.finished_at
          between interval '53 seconds' and interval '67 seconds'
          and a.finished_at between clock_timestamp() - interval '1 minute' and clock_timestamp()";
    fixture.wait_count(waits, 1).await;
    // Its lease is neither over early nor minutes long, and the rescue of a process with the right
    // clock leaves it alone.
    let keeper = fixture.engine().without_relay().start().await.unwrap();
    let renewed = "select count(*) from postrider.session where name = 'skewed'
        and ended_at is null and expires_at > started_at + interval '9 seconds'
        and expires_at between clock_timestamp() and clock_timestamp() + interval '6 seconds'";
    fixture.wait_count(renewed, 1).await;
    keeper.maintain().await.unwrap();
    let held = "select count(*) from postrider.job where state = 'running' and attempt = 1";
    assert_eq!(fixture.count(held).await, 1);
    // What it held is free when it dies, not five minutes later.
    process.kill();
    let freed = "select count(*) from postrider.job where state = 'pending'
        and last_error like 'attempt 1 of 20 died with its process (skewed)'";
    fixture.wait_count(freed, 1).await;
    keeper.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b16_an_engine_five_minutes_behind_keeps_to_the_clock_of_the_database() {
    skewed_by("-5m").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b16_an_engine_five_minutes_ahead_keeps_to_the_clock_of_the_database() {
    skewed_by("+5m").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b16_an_application_with_a_wrong_clock_records_with_the_time_of_the_database() {
    for offset in ["-5m", "+5m"] {
        let fixture = Fixture::new().await;
        fixture.declare(&["a.b"]).await;
        let seen = crate::support::Seen::default();
        let subscription = crate::support::eager("s", &["a.b"], 1);
        let engine = fixture.engine().subscribe(subscription, seen.handler());
        let engine = engine.start().await.unwrap();
        let mut application = Process::start_with_clock(&fixture, "records", offset);
        assert!(application.wait().success());
        seen.wait_for(1).await;
        engine.shutdown().await;
        let timely = holds(
            "(select count(*) from postrider.event where occurred_at
                between clock_timestamp() - interval '1 minute' and clock_timestamp()) = 1",
        );
        assert_eq!(fixture.count(&timely).await, 1, "{offset}");
    }
}
