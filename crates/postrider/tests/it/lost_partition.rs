//! Partitions of events that somebody dropped by hand: what was in them is named, the rest goes on.

use std::time::Duration;

use postrider::Subscription;

use crate::collect::collector;
use crate::fixture::{Fixture, event_type};

/// Drops the partition that the event about `$1` lies in.
fn drop_partition_of(subject: &str) -> String {
    format!(
        "do $$ begin execute format('drop table %s',
           (select tableoid::regclass from postrider.event where subject = '{subject}')); end $$"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owed_event_whose_partition_is_gone_is_poisoned_with_the_reason_and_blocks_nobody() {
    let mut fixture = Fixture::new().await;
    fixture.declare(&["a.b"]).await;
    fixture.subscription("s", &["a.b"]).await;
    fixture.record("a.b", "lost").await;
    fixture.sql(&drop_partition_of("lost")).await;
    fixture.record("a.b", "kept").await;
    let retry_wait = Duration::from_millis(10);
    let engine = fixture.engine().relay_retry_wait(retry_wait).start().await.unwrap();
    fixture.wait_count("select count(*) from postrider.job", 1).await;
    let poisoned = "select count(*) from postrider.fanout_failure where poisoned_at is not null";
    fixture.wait_count(poisoned, 1).await;
    engine.shutdown().await;
    let reasons = fixture.texts("select last_error from postrider.fanout_failure").await;
    assert!(reasons[0].contains("its partition was dropped"), "{reasons:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_event_is_gone_is_discarded_with_the_reason_and_others_are_handled() {
    let mut fixture = Fixture::new().await;
    let (handler, mut got) = collector();
    let subscription = || Subscription::new("s", ["**"]).unwrap();
    // The first engine fans out only, so that the job waits while its event goes.
    let relay = fixture.engine().declare(event_type("a.b")).start().await.unwrap();
    fixture.subscription("s", &["a.b"]).await;
    fixture.record("a.b", "lost").await;
    fixture.wait_count("select count(*) from postrider.job", 1).await;
    relay.shutdown().await;
    fixture.sql(&drop_partition_of("lost")).await;
    let engine = fixture.engine().declare(event_type("a.b")).subscribe(subscription(), handler);
    let engine = engine.start().await.unwrap();
    let kept = fixture.record("a.b", "kept").await;
    assert_eq!(got.next().await.event.id, kept);
    let discarded = "select count(*) from postrider.job_history where state = 'discarded'";
    fixture.wait_count(discarded, 1).await;
    engine.shutdown().await;
    let reason = "select last_error from postrider.job_history where state = 'discarded'";
    let reasons = fixture.texts(reason).await;
    assert!(reasons[0].contains("has no row in event"), "{reasons:?}");
}
