//! Maintenance: partitions made ahead, and days dropped without anybody waiting or losing a row.

use std::time::Duration;

use postrider::Handle;
use postrider_testkit::wait_until;

use crate::fixture::{Fixture, PATIENCE};

pub const DAY: Duration = Duration::from_secs(86_400);

/// An engine that fans nothing out and handles nothing: it only maintains.
pub async fn keeper(fixture: &Fixture) -> Handle {
    fixture.engine().without_relay().start().await.unwrap()
}

/// Maintains until the partition of today is gone from `table`.
pub async fn until_dropped(fixture: &Fixture, engine: &Handle, table: &str) {
    wait_until("today's partition is dropped", PATIENCE, async || {
        engine.maintain().await.unwrap();
        let left = fixture.count(&today_of(table)).await;
        (left == 0).then_some(()).ok_or("it is there".to_owned())
    })
    .await;
}

/// Counts the partitions of `table` for today.
pub fn today_of(table: &str) -> String {
    format!(
        "select count(*) from postrider.partitions_of('{table}')
         where day = (now() at time zone 'UTC')::date"
    )
}

pub async fn drop_today(fixture: &Fixture, pinned_max: i32) -> (String, i64) {
    let sql = "select result, pinned
        from postrider.drop_event_day((now() at time zone 'UTC')::date, $1)";
    let row = fixture.client.query_one(sql, &[&pinned_max]).await.unwrap();
    (row.get(0), row.get(1))
}

pub async fn subjects(fixture: &Fixture, table: &str) -> Vec<String> {
    let sql = format!("select subject from postrider.{table} order by subject");
    fixture.client.query(&sql, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn partitions_of_the_coming_week_are_made_for_every_table() {
    let fixture = Fixture::new().await;
    let engine = keeper(&fixture).await;
    engine.advance_clock(30 * DAY);
    engine.maintain().await.unwrap();
    let days = "select (now() at time zone 'UTC')::date + 30 + n from generate_series(0, 7) n";
    for table in ["event", "fanout", "job_completed", "job_discarded", "job_attempt"] {
        let sql = format!(
            "select count(*) from postrider.partitions_of('{table}') where day in ({days})"
        );
        assert_eq!(fixture.count(&sql).await, 8, "{table}");
    }
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_in_the_net_move_into_their_partition_when_it_is_made() {
    let fixture = Fixture::new().await;
    let engine = keeper(&fixture).await;
    let future = "
        insert into postrider.event (seq, occurred_at, id, tenant, type, subject, key, data)
          select n, now() + n * interval '1 day', gen_random_uuid(), '', 'a.b', 's', 's', '{}'
          from generate_series(10, 14) n;
        insert into postrider.fanout (seq, occurred_at, fanned_out_at, routing_version,
          subscription_ids, job_ids)
          select seq, occurred_at, now(), 1, '{}', '{}' from postrider.event;
        insert into postrider.job_history (id, finished_at, started_at, created_at,
          subscription_id,
            attempt, extra_attempts, state, origin, priority, tenant, last_error)
          select n, now() + n * interval '1 day', now(), now(), 1, 1, 0,
            (case when n % 2 = 0 then 'completed' else 'discarded' end)::postrider.job_state,
              'enqueue', 2, '', 'x'
          from generate_series(10, 14) n;
        insert into postrider.job_attempt
          select n, 1, now(), now() + n * interval '1 day', null, 'retry',
            'x' from generate_series(10, 14) n";
    fixture.client.batch_execute(future).await.unwrap();
    let nets = ["event", "fanout", "job_completed", "job_discarded", "job_attempt"];
    for table in nets {
        let sql = format!("select count(*) from postrider.{table}_default");
        assert!(fixture.count(&sql).await > 0, "{table}");
    }
    engine.advance_clock(8 * DAY);
    wait_until("the nets are empty", PATIENCE, async || {
        engine.maintain().await.unwrap();
        let mut left = 0;
        for table in nets {
            left += fixture
                .count(&format!(
                    "select count(*) from
                postrider.{table}_default"
                ))
                .await;
        }
        (left == 0).then_some(()).ok_or(format!("{left} rows are left"))
    })
    .await;
    for table in ["event", "fanout", "job_history", "job_attempt"] {
        assert_eq!(
            fixture.count(&format!("select count(*) from postrider.{table}")).await,
            5,
            "{table}"
        );
    }
    let places =
        "select c.relname::text, 'event_' || to_char(occurred_at at time zone 'UTC', 'YYYYMMDD')
        from postrider.event e join pg_class c on c.oid = e.tableoid";
    for row in fixture.client.query(places, &[]).await.unwrap() {
        assert_eq!(row.get::<_, &str>(0), row.get::<_, &str>(1));
    }
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_transaction_keeps_its_day_and_nobody_waits_for_it() {
    let mut fixture = Fixture::new().await;
    fixture.declare(&["a.b"]).await;
    let slow = fixture.db.client().await;
    slow.batch_execute("begin; select postrider.record('a.b', 'slow')").await.unwrap();
    // While it is open the day cannot go; the answer comes although the transaction stays open.
    assert_eq!(drop_today(&fixture, 10).await, ("busy".into(), 0));
    let engine = keeper(&fixture).await;
    engine.advance_clock(9 * DAY);
    engine.maintain().await.unwrap();
    assert_eq!(fixture.count(&today_of("event")).await, 1);
    fixture.record("a.b", "quick").await;
    slow.batch_execute("commit").await.unwrap();
    until_dropped(&fixture, &engine, "event").await;
    assert_eq!(subjects(&fixture, "event_default").await, ["quick", "slow"]);
    assert_eq!(fixture.count("select count(*) from postrider.owed").await, 2);
    // A writer whose day has no partition any more writes into the net.
    fixture.record("a.b", "late").await;
    assert_eq!(subjects(&fixture, "event_default").await, ["late", "quick", "slow"]);
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_commits_between_the_look_and_the_lock_is_seen_under_the_lock() {
    let mut fixture = Fixture::new().await;
    fixture.declare(&["a.b"]).await;
    fixture.record("a.b", "just in time").await;
    // The looks before the lock find nothing, as if the event had been committed after them.
    let blind = "create or replace function postrider.pinned_events(lower_bound timestamptz,
        upper_bound timestamptz)
        returns table (seq bigint, occurred_at timestamptz) language sql stable
        as 'select 1::bigint, now() where false'";
    fixture.client.batch_execute(blind).await.unwrap();
    assert_eq!(drop_today(&fixture, 10).await, ("dropped".into(), 1));
    assert_eq!(subjects(&fixture, "event_default").await, ["just in time"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fan_out_under_way_and_a_reader_keep_the_day_for_now() {
    let fixture = Fixture::new().await;
    let other = fixture.db.client().await;
    for holding in [
        "begin; select pg_advisory_xact_lock_shared(routing) from postrider.wake_keys()",
        "begin; select count(*) from postrider.event",
        "begin; select count(*) from postrider.fanout",
    ] {
        other.batch_execute(holding).await.unwrap();
        assert_eq!(drop_today(&fixture, 10).await.0, "busy", "{holding}");
        other.batch_execute("rollback").await.unwrap();
    }
    assert_eq!(drop_today(&fixture, 10).await.0, "dropped");
    assert_eq!(drop_today(&fixture, 10).await.0, "gone");
}

#[tokio::test(flavor = "multi_thread")]
async fn too_many_pinned_events_keep_their_whole_day() {
    let mut fixture = Fixture::new().await;
    fixture.declare(&["a.b"]).await;
    for n in 0..3 {
        fixture.record("a.b", &n.to_string()).await;
    }
    assert_eq!(drop_today(&fixture, 2).await, ("pinned".into(), 3));
    assert_eq!(fixture.count(&today_of("event")).await, 1);
    assert_eq!(drop_today(&fixture, 3).await, ("dropped".into(), 3));
    assert_eq!(subjects(&fixture, "event_default").await, ["0", "1", "2"]);
}
