//! Coalescing: one job stands for all events of a subject within a batch, where that was asked for.

use postrider::Subscription;

use crate::fixture::{Fixture, event_type};
use crate::support::Seen;

/// Six events in one transaction: three about `a`, two about `a` of another tenant, one about `b`.
async fn record_six(fixture: &Fixture) {
    fixture
        .sql(
            "select postrider.record('doc.changed', 'a', '{\"n\": 1}');
             select postrider.record('doc.changed', 'a', '{\"n\": 2}', tenant => 't');
             select postrider.record('doc.changed', 'b', '{\"n\": 3}');
             select postrider.record('doc.changed', 'a', '{\"n\": 4}');
             select postrider.record('doc.changed', 'a', '{\"n\": 5}');
             select postrider.record('doc.changed', 'a', '{\"n\": 6}', tenant => 't');",
        )
        .await;
}

/// The numbers of the events that a subscription got jobs for.
async fn numbers(fixture: &Fixture, subscription: &str) -> Vec<String> {
    let sql = format!(
        "select e.data ->> 'n' from postrider.job_history j
         join postrider.event e on e.seq = j.event_seq
         join postrider.subscription s on s.id = j.subscription_id
         where s.name = '{subscription}' and j.state = 'completed' order by e.seq"
    );
    fixture.texts(&sql).await
}

#[tokio::test(flavor = "multi_thread")]
async fn only_who_asked_for_it_gets_one_job_for_the_latest_event_of_a_subject_in_a_batch() {
    let fixture = Fixture::new().await;
    fixture.declare(&["doc.changed"]).await;
    record_six(&fixture).await;
    let seen = Seen::default();
    let index = Subscription::new("index", ["doc.*"]).unwrap().coalesce();
    let audit = Subscription::new("audit", ["doc.*"]).unwrap();
    let engine = fixture
        .engine()
        .subscribe(index, seen.handler())
        .subscribe(audit, seen.handler())
        .start()
        .await
        .unwrap();
    fixture.wait_finished().await;
    engine.shutdown().await;
    let batches = "select count(distinct fanned_out_at) from postrider.fanout";
    assert_eq!(fixture.count(batches).await, 1, "the six events were one batch");
    assert_eq!(numbers(&fixture, "audit").await, ["1", "2", "3", "4", "5", "6"]);
    assert_eq!(numbers(&fixture, "index").await, ["3", "5", "6"]);
    assert_eq!(seen.runs().len(), 9);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_record_of_the_fan_out_names_the_event_whose_job_stands_for_another() {
    let fixture = Fixture::new().await;
    fixture.declare(&["doc.changed"]).await;
    record_six(&fixture).await;
    let index = Subscription::new("index", ["doc.*"]).unwrap().coalesce();
    let audit = Subscription::new("audit", ["doc.*"]).unwrap();
    let engine = fixture
        .engine()
        .subscribe(index, async |_| ())
        .subscribe(audit, async |_| ())
        .start()
        .await
        .unwrap();
    fixture.wait_finished().await;
    engine.shutdown().await;
    let sql = "select e.data ->> 'n' || ' ' || s.name || ' '
                 || coalesce(into_event.data ->> 'n', 'itself') || ' '
                 || (j.event_seq = coalesce(u.into_seq, f.seq))::text
               from postrider.fanout f
               join postrider.event e on e.seq = f.seq
               cross join unnest(f.subscription_ids, f.job_ids,
                 coalesce(f.coalesced_into,
                   array_fill(null::bigint, array[cardinality(f.job_ids)])))
                 u(subscription_id, job_id, into_seq)
               join postrider.subscription s on s.id = u.subscription_id
               join postrider.job_history j on j.id = u.job_id
               left join postrider.event into_event on into_event.seq = u.into_seq
               where s.name = 'index' order by f.seq";
    let named = fixture.texts(sql).await;
    let expected = ["1 index 5 true", "2 index 6 true", "3 index itself true"];
    assert_eq!(named[..3], expected);
    assert_eq!(named[3..], ["4 index 5 true", "5 index itself true", "6 index itself true"]);
    let audit = "select count(*) from postrider.fanout where cardinality(job_ids) = 2";
    assert_eq!(fixture.count(audit).await, 6, "every event names both subscriptions' jobs");
}

#[tokio::test(flavor = "multi_thread")]
async fn events_of_different_batches_are_not_coalesced() {
    let mut fixture = Fixture::new().await;
    let seen = Seen::default();
    let index = Subscription::new("index", ["doc.*"]).unwrap().coalesce();
    let engine = fixture
        .engine()
        .declare(event_type("doc.changed"))
        .subscribe(index, seen.handler())
        .start()
        .await
        .unwrap();
    for _ in 0..3 {
        fixture.record("doc.changed", "a").await;
        fixture.wait_fanned_out().await;
    }
    seen.wait_for(3).await;
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_on_which_the_filter_fails_does_not_swallow_the_others_of_its_subject() {
    let fixture = Fixture::new().await;
    fixture.declare(&["doc.changed"]).await;
    fixture
        .sql(
            "select postrider.record('doc.changed', 'a', '{\"n\": 1, \"size\": 1}');
             select postrider.record('doc.changed', 'a', '{\"n\": 2, \"size\": \"big\"}');",
        )
        .await;
    let index =
        Subscription::new("index", ["doc.*"]).unwrap().coalesce().filter("$.data.size.double()");
    let engine = fixture.engine().subscribe(index, async |_| ()).start().await.unwrap();
    fixture.wait_finished().await;
    engine.shutdown().await;
    assert_eq!(numbers(&fixture, "index").await, ["1"]);
    let discarded = "select count(*) from postrider.job_history where state = 'discarded'";
    assert_eq!(fixture.count(discarded).await, 1);
}
