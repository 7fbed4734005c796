//! Many types and subscriptions, and a writer that stays open for long.

use std::time::Instant;

use postrider::admin::Admin;
use postrider::{Delivery, EventType, NewEvent, Recorder, Schema, Subscription};

use crate::fixture::Fixture;
use crate::relay::relays_look;
use crate::support::{Seen, eager};

const TYPES: usize = 10_000;
const SUBSCRIPTIONS: usize = 1_000;

/// How much memory this process has in use, in MiB.
fn memory_mib() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() / 1024
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_types_and_a_thousand_subscriptions_are_declared_fanned_out_and_listed() {
    let mut fixture = Fixture::new().await;
    let seen = Seen::default();
    let mut builder = fixture.engine();
    for n in 0..TYPES {
        let name = format!("area{}.thing{n}.changed", n % SUBSCRIPTIONS);
        builder = builder.declare(EventType::new(&name).unwrap());
    }
    for n in 0..SUBSCRIPTIONS - 1 {
        let own = format!("area{n}.**");
        builder = builder.subscribe(eager(&format!("s{n}"), &[&own], 3), seen.handler());
    }
    builder = builder.subscribe(eager("all", &["**"], 3), seen.handler());
    let before = memory_mib();
    let engine = builder.start().await.unwrap();
    let routes = fixture.count("select count(*) from postrider.route").await;
    assert_eq!(usize::try_from(routes), Ok(2 * TYPES - TYPES / SUBSCRIPTIONS));
    for n in 0..20 {
        fixture.record(&format!("area{n}.thing{n}.changed"), "x").await;
    }
    fixture.wait_finished().await;
    assert_eq!(seen.runs().len(), 40);
    let admin = Admin::connect(&fixture.database(), &Schema::default()).await.unwrap();
    assert_eq!(admin.types().await.unwrap().len(), TYPES);
    let listed = admin.subscriptions().await.unwrap();
    assert_eq!(listed.len(), SUBSCRIPTIONS);
    assert_eq!(listed.iter().map(|info| info.types.len()).sum::<usize>(), 2 * TYPES - 10);
    // A change of one subscription changes its own routes alone.
    let more = Subscription::new("more", ["area7.*.changed"]).unwrap();
    admin.create_subscription(&more).await.unwrap();
    let routes = fixture.count("select count(*) from postrider.route").await;
    assert_eq!(usize::try_from(routes), Ok(2 * TYPES));
    let grown = memory_mib().saturating_sub(before);
    // Other tests share this process.
    assert!(grown < 400, "{grown} MiB more in use");
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_that_stays_open_is_waited_for_without_a_busy_loop_and_others_pass_it() {
    let mut fixture = Fixture::new().await;
    fixture.declare(&["a.b"]).await;
    let engine = fixture
        .engine()
        .poll_interval(std::time::Duration::from_secs(1))
        .subscribe(eager("s", &["a.b"], 3), async |_: Delivery| ())
        .start()
        .await
        .unwrap();
    let mut writer = fixture.db.client().await;
    let mut open = writer.transaction().await.unwrap();
    Recorder::default().record(&mut open, &NewEvent::new("a.b", "late").unwrap()).await.unwrap();
    let completed = "select count(*) from postrider.job_history where state = 'completed'";
    for n in 1..=3 {
        fixture.record("a.b", "other").await;
        fixture.wait_count(completed, n).await;
    }
    // Ten minutes are a hundred looks here: the relay has looked again, and not for the fun of it.
    relays_look(&fixture, 5).await;
    let started = Instant::now();
    let before = looks(&fixture).await;
    relays_look(&fixture, 100).await;
    let (looks, spent) = (looks(&fixture).await - before, started.elapsed());
    // It asks for the bell for 25 ms and waits for 50, and each time takes one look: 13 a second,
    // and 5 of its floor. The slower the machine, the fewer.
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    let each_second = looks as f64 / spent.as_secs_f64();
    assert!(each_second < 25.0, "{looks} looks in {spent:?}");
    open.commit().await.unwrap();
    fixture.wait_count(completed, 4).await;
    engine.shutdown().await;
}

/// How often owed events were looked at so far.
async fn looks(fixture: &Fixture) -> i64 {
    let sql = "select coalesce(idx_scan, 0) + coalesce(seq_scan, 0) from pg_stat_user_tables
        where schemaname = 'postrider' and relname = 'owed'";
    fixture.count(sql).await
}
