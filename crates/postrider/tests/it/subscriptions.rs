//! Which events a subscription gets: globs, tenants, filters, exposure, and the seam of its
//! creation.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use postrider::{EventType, Subscription};

use crate::fixture::{Fixture, event_type};
use crate::support::Seen;

fn subscription(name: &str, glob: &str) -> Subscription {
    Subscription::new(name, [glob]).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn globs_of_one_subscription_that_overlap_match_once() {
    let mut fixture = Fixture::new().await;
    let seen = Seen::default();
    let all = Subscription::new("all", ["**", "order.*", "order.placed", "*.placed"]).unwrap();
    let engine = fixture
        .engine()
        .declare(event_type("order.placed"))
        .subscribe(all, seen.handler())
        .start()
        .await
        .unwrap();
    fixture.record("order.placed", "1").await;
    fixture.wait_finished().await;
    seen.wait_for(1).await;
    engine.shutdown().await;
    assert_eq!(seen.runs().len(), 1);
    assert_eq!(fixture.count("select count(*) from postrider.job_history").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_of_a_tenant_gets_that_tenants_events_alone() {
    let fixture = Fixture::new().await;
    let seen = Seen::default();
    let engine = fixture
        .engine()
        .declare(event_type("a.b"))
        .subscribe(subscription("one", "a.b").tenant("t1"), seen.handler())
        .subscribe(subscription("none", "a.b").tenant(""), seen.handler())
        .subscribe(subscription("all", "a.b"), seen.handler())
        .start()
        .await
        .unwrap();
    fixture
        .sql(
            "select postrider.record('a.b', 'x', tenant => 't1');
             select postrider.record('a.b', 'y', tenant => 't2');
             select postrider.record('a.b', 'z');",
        )
        .await;
    fixture.wait_finished().await;
    engine.shutdown().await;
    assert_eq!(seen.subjects("one"), ["x"]);
    assert_eq!(seen.subjects("none"), ["z"]);
    assert_eq!(seen.subjects("all"), ["x", "y", "z"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_decides_by_the_first_value_of_its_path() {
    let fixture = Fixture::new().await;
    let seen = Seen::default();
    let filters = [
        ("large", "$.data.amount > 100"),
        ("present", "$.data.amount"),
        ("headed", "$.headers.region == \"eu\""),
        ("dated", "$.data.at.datetime() < \"2020-01-01T00:00:00+00\".datetime()"),
    ];
    let mut builder = fixture.engine().declare(event_type("a.b"));
    for (name, filter) in filters {
        builder = builder.subscribe(subscription(name, "a.b").filter(filter), seen.handler());
    }
    let engine = builder.start().await.unwrap();
    fixture
        .sql(
            "select postrider.record('a.b', 'x', '{\"amount\": 101}');
             select postrider.record('a.b', 'y', '{\"amount\": 1}',
               headers => '{\"region\": \"eu\"}');
             select postrider.record('a.b', 'z', '{\"amount\": null, \"at\": \"2019-12-31\"}');",
        )
        .await;
    fixture.wait_finished().await;
    engine.shutdown().await;
    assert_eq!(seen.subjects("large"), ["x"]);
    assert_eq!(seen.subjects("present"), ["x", "y"]);
    assert_eq!(seen.subjects("headed"), ["y"]);
    assert_eq!(seen.subjects("dated"), ["z"], "a date is compared with a time in a zone");
    let errors = "select count(*) from postrider.subscription where filter_error is not null";
    assert_eq!(fixture.count(errors).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_that_fails_is_shown_on_its_subscription_and_holds_up_nobody_else() {
    let fixture = Fixture::new().await;
    let seen = Seen::default();
    let broken = subscription("broken", "a.b").filter("strict $.data.amount");
    let engine = fixture
        .engine()
        .declare(event_type("a.b"))
        .subscribe(broken, seen.handler())
        .subscribe(subscription("other", "a.b"), seen.handler())
        .start()
        .await
        .unwrap();
    fixture.sql("select postrider.record('a.b', 'x', '{}')").await;
    fixture.sql("select postrider.record('a.b', 'y', '{\"amount\": 200}')").await;
    fixture.wait_finished().await;
    let shown = "select count(*) from postrider.subscription
                 where name = 'broken' and filter_error like '%amount%'
                   and filter_error_at is not null";
    fixture.wait_count(shown, 1).await;
    engine.shutdown().await;
    assert_eq!(seen.subjects("other"), ["x", "y"]);
    assert_eq!(seen.subjects("broken"), ["y"], "the filter is asked again for each event");
    let discarded = "select e.subject || ': ' || (j.last_error like 'filter: %amount%')::text
                     from postrider.job_history j join postrider.event e on e.seq = j.event_seq
                     where j.state = 'discarded'";
    assert_eq!(fixture.texts(discarded).await, ["x: true"], "a person sees what was not sent");
    let named = "select count(*) from postrider.fanout f join postrider.job_history j
                 on j.id = any(f.job_ids) and j.state = 'discarded'";
    assert_eq!(fixture.count(named).await, 1, "and finds it from the event");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_that_is_no_json_path_is_refused_before_anything_starts() {
    let fixture = Fixture::new().await;
    let broken = subscription("broken", "a.b").filter("$.data.amount >");
    let builder = fixture.engine().declare(event_type("a.b")).subscribe(broken, async |_| ());
    let error = builder.start().await.err().expect("refused");
    assert_eq!(error.kind(), postrider::ErrorKind::Invalid);
    assert_eq!(error.field(), Some("filter"));
    assert!(error.to_string().contains("$.data.amount >"), "{error}");
    assert_eq!(fixture.count("select count(*) from postrider.subscription").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn where_undeclared_types_are_permitted_the_relay_declares_and_routes_them_before_it_claims()
{
    let mut fixture = Fixture::new().await;
    fixture.sql("update postrider.setting set undeclared_types = true").await;
    let seen = Seen::default();
    let all = subscription("all", "new.**");
    let engine = fixture.engine().subscribe(all, seen.handler()).start().await.unwrap();
    fixture.record("new.thing.seen", "1").await;
    fixture.record("new.other", "2").await;
    fixture.record("else.where", "3").await;
    fixture.wait_finished().await;
    engine.shutdown().await;
    assert_eq!(seen.subjects("all"), ["1", "2"], "the first event of a type already arrives");
    let declared = "select type || ' ' || exposure from postrider.event_type order by type";
    let expected = ["else.where internal", "new.other internal", "new.thing.seen internal"];
    assert_eq!(fixture.texts(declared).await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_internal_type_never_goes_to_a_sink_outside() {
    let mut fixture = Fixture::new().await;
    let hook = fixture.subscription("hook", &["secret.made"]).await;
    let widen = "update postrider.subscription
                 set sink = 'webhook', globs = '{**}', declared_globs = '{**}'";
    fixture.sql(widen).await;
    let engine = fixture
        .engine()
        .declare(event_type("secret.made"))
        .declare(EventType::new("order.placed").unwrap().external())
        .start()
        .await
        .unwrap();
    fixture.record("secret.made", "1").await;
    fixture.record("order.placed", "2").await;
    fixture.wait_fanned_out().await;
    engine.shutdown().await;
    let got = "select e.type || ' ' || j.subscription_id from postrider.job j
               join postrider.event e on e.seq = j.event_seq";
    assert_eq!(fixture.texts(got).await, [format!("order.placed {hook}")]);
    // Made internal again, the type is taken off the routes.
    let engine = fixture
        .engine()
        .declare(EventType::new("order.placed").unwrap().version(2))
        .start()
        .await
        .unwrap();
    fixture.record("order.placed", "3").await;
    fixture.wait_fanned_out().await;
    engine.shutdown().await;
    assert_eq!(fixture.count("select count(*) from postrider.job").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fan_out_transaction_never_makes_more_than_ten_thousand_jobs() {
    let fixture = Fixture::new().await;
    fixture.declare(&["a.b"]).await;
    let many = "insert into postrider.subscription
          (name, globs, declared_globs, backoff, created_routing_version)
        select 's' || n, '{a.b}', '{a.b}', '{\"list\":{\"delays_ms\":[1]}}', 1
        from generate_series(1, 300) n;
        insert into postrider.route select 'a.b', id from postrider.subscription;";
    fixture.sql(many).await;
    fixture.record_many("a.b", "x", 100).await;
    // Any change of types or subscriptions works the bound out anew.
    let engine =
        fixture.engine().declare(event_type("other.type")).relay_batch(200).start().await.unwrap();
    fixture.wait_fanned_out().await;
    engine.shutdown().await;
    assert_eq!(fixture.count("select count(*) from postrider.job").await, 30_000);
    let largest = "select max(jobs) from (select sum(cardinality(job_ids))::bigint as jobs
                   from postrider.fanout group by fanned_out_at) batch";
    assert_eq!(fixture.count(largest).await, 9_900, "33 events for 300 subscriptions each");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_subscription_gets_what_was_still_owed_and_all_that_came_later_and_nothing_else() {
    let fixture = Fixture::new().await;
    fixture.declare(&["a.b"]).await;
    let old = fixture.subscription("old", &["a.b"]).await;
    let mut relays = Vec::new();
    for _ in 0..2 {
        relays.push(fixture.engine().relay_batch(5).start().await.unwrap());
    }
    let stop = Arc::new(AtomicBool::new(false));
    let mut writers = tokio::task::JoinSet::new();
    for _ in 0..3 {
        let (client, stop) = (fixture.db.client().await, Arc::clone(&stop));
        writers.spawn(async move {
            while !stop.load(Ordering::Acquire) {
                let sql = "select postrider.record('a.b', 's' || n) from generate_series(1, 3) n";
                client.execute(sql, &[]).await.unwrap();
            }
        });
    }
    let fanned = "select (count(*) >= 200)::int::bigint from postrider.fanout";
    fixture.wait_count(fanned, 1).await;
    let new = subscription("new", "a.b");
    let added =
        fixture.engine().without_relay().subscribe(new, async |_| ()).start().await.unwrap();
    let after = "select (count(*) >= 200)::int::bigint from postrider.fanout f
        where routing_version >= (select created_routing_version from postrider.subscription
                                  where name = 'new')";
    fixture.wait_count(after, 1).await;
    stop.store(true, Ordering::Release);
    while writers.join_next().await.is_some() {}
    fixture.wait_fanned_out().await;
    added.shutdown().await;
    for relay in relays {
        relay.shutdown().await;
    }
    // The seam that is written down and the one that happened are the same.
    let wrong = "select count(*) from postrider.fanout f, postrider.subscription s
        where s.name = 'new'
          and (f.routing_version >= s.created_routing_version) <> (s.id = any(f.subscription_ids))";
    assert_eq!(fixture.count(wrong).await, 0);
    let all =
        format!("select count(*) from postrider.fanout where not {old} = any(subscription_ids)");
    assert_eq!(fixture.count(&all).await, 0, "who was there before missed nothing");
    let before =
        "select (count(*) > 0)::int::bigint from postrider.fanout f, postrider.subscription s
        where s.name = 'new' and f.routing_version < s.created_routing_version";
    assert_eq!(fixture.count(before).await, 1);
    let each_once = "select count(*) - count(distinct (event_seq, subscription_id)) from (
        select event_seq, subscription_id from postrider.job union all
        select event_seq, subscription_id from postrider.job_history) j";
    assert_eq!(fixture.count(each_once).await, 0);
}
