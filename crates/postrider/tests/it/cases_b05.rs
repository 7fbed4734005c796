//! Case B05: after a crash nothing stays in progress, also when the name of the process is used
//! again at once, or its registry row is gone.

use crate::killed::{Second, five_running};
use crate::support::{Seen, eager};

#[tokio::test(flavor = "multi_thread")]
async fn b05_a_process_that_starts_again_under_the_same_name_gets_the_jobs_of_its_predecessor() {
    let (fixture, mut second) = five_running().await;
    second.kill();
    let again = Second::start(&fixture);
    // Its handlers never end, so all five run under it once the lease of the dead one is over.
    let taken_over = "select count(*) from postrider.job j
        join postrider.lease l on l.token = j.lease_token
        join postrider.session o on o.id = l.session_id and o.ended_at is null
        where j.state = 'running' and j.attempt = 2 and o.name = 'second'";
    fixture.wait_count(taken_over, 5).await;
    let lost = "select count(*) from postrider.session where name = 'second'
        and end_reason = 'lost'";
    assert_eq!(fixture.count(lost).await, 1, "the renewals of the new one kept no old one alive");
    drop(again);
}

#[tokio::test(flavor = "multi_thread")]
async fn b05_housekeeping_does_not_forget_a_dead_process_before_its_jobs_are_free() {
    let (fixture, mut second) = five_running().await;
    second.kill();
    let long_ago = "update postrider.session set ended_at = now() - interval '30 days',
        end_reason = 'lost' where name = 'second'";
    fixture.sql(long_ago).await;
    // Forgetting comes first, as it would in a process that only keeps house.
    let statements = postrider::for_tests::statements(&postrider::Schema::default());
    let (_, forget, _) = statements.iter().find(|(name, ..)| *name == "session_forget").unwrap();
    fixture.sql(forget).await;
    let kept = "select count(*) from postrider.session where name = 'second'";
    assert_eq!(fixture.count(kept).await, 1);
    let seen = Seen::default();
    let engine =
        fixture.engine().subscribe(eager("s", &["a.b"], 5), seen.handler()).start().await.unwrap();
    fixture.wait_finished().await;
    engine.maintain().await.unwrap();
    assert_eq!(fixture.count(kept).await, 0, "it is forgotten once it holds nothing");
    engine.shutdown().await;
    assert_eq!(seen.subjects("s"), ["x1", "x2", "x3", "x4", "x5"]);
}
