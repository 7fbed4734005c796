//! Case B32: eleven that can never be delivered, in front of a hundred that can.

use std::time::Duration;

use postrider::{Delivery, HandlerError};

use crate::fixture::Fixture;
use crate::support::{Seen, eager};

#[tokio::test(flavor = "multi_thread")]
async fn b32_jobs_that_never_succeed_hold_up_no_other_and_end_where_a_person_sees_them() {
    let fixture = Fixture::new().await;
    fixture.declare(&["a.b"]).await;
    let seen = Seen::default();
    // Six are refused for good, five fail each time.
    let handler = seen.then(async |delivery: Delivery| {
        let subject = &delivery.event.subject;
        match subject.strip_prefix("bad").map(str::parse::<i32>) {
            Some(Ok(number)) if number <= 6 => Err(HandlerError::permanent("too large")),
            Some(_) => Err("not now".into()),
            None => Ok(()),
        }
    });
    fixture.record_many("a.b", "bad", 11).await;
    let engine = fixture
        .engine()
        .queue("default", 10)
        .subscribe(eager("s", &["a.b"], 3), handler)
        .subscribe(eager("other", &["a.b"], 3), seen.handler())
        .start()
        .await
        .unwrap();
    fixture.record_many("a.b", "good", 100).await;
    fixture.wait_finished().await;
    engine.shutdown().await;
    let ends =
        "select state || ' ' || attempt || ' ' || coalesce(last_error, '-') || ' ' || count(*)
        from postrider.job_history group by state, attempt, last_error order by 1";
    assert_eq!(
        fixture.texts(ends).await,
        ["completed 1 - 211", "discarded 1 too large 6", "discarded 3 not now 5"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn b32_a_whole_batch_that_cannot_be_fanned_out_is_told_from_an_outage() {
    let fixture = Fixture::new().await;
    fixture.declare(&["a.b"]).await;
    fixture.subscription("s", &["a.b"]).await;
    fixture
        .sql(
            "create function fail() returns trigger language plpgsql as $$
             begin
               if exists (select from postrider.event e
                          where e.seq = new.event_seq and e.subject like 'bad%') then
                 raise exception 'never';
               end if;
               return new;
             end $$;
             create trigger fail before insert on postrider.job
               for each row execute function fail()",
        )
        .await;
    fixture.record_many("a.b", "bad", 11).await;
    fixture.record_many("a.b", "good", 100).await;
    let wait = Duration::from_secs(1000);
    let engine = fixture.engine().relay_batch(10).relay_retry_wait(wait).start().await.unwrap();
    fixture.wait_count("select count(*) from postrider.job", 100).await;
    // Each bad one was tried alone once and blamed; as an outage it would have its attempt back.
    let blamed = "select count(*) from postrider.fanout_failure
        where attempts = 1 and last_error = 'never'";
    assert_eq!(fixture.count(blamed).await, 11);
    assert_eq!(fixture.count("select count(*) from postrider.owed").await, 0);
    engine.shutdown().await;
}
