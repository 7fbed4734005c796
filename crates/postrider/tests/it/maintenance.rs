//! Maintenance: partitions made ahead and dropped in time, and what must outlive its day.

use std::time::Duration;

use postrider::{Handle, Subscription};
use postrider_testkit::wait_until;

use crate::collect::collector;
use crate::fixture::{Fixture, PATIENCE, event_type};

const DAY: Duration = Duration::from_secs(86_400);

/// An engine that fans nothing out and handles nothing: it only maintains.
async fn keeper(fixture: &Fixture) -> Handle {
    fixture.engine().without_relay().start().await.unwrap()
}

/// Maintains until the partition of today is gone from `table`.
async fn until_dropped(fixture: &Fixture, engine: &Handle, table: &str) {
    wait_until("today's partition is dropped", PATIENCE, async || {
        engine.maintain().await.unwrap();
        let left = fixture.count(&today_of(table)).await;
        (left == 0).then_some(()).ok_or("it is there".to_owned())
    })
    .await;
}

/// Counts the partitions of `table` for today.
fn today_of(table: &str) -> String {
    format!(
        "select count(*) from postrider.partitions_of('{table}')
         where day = (now() at time zone 'UTC')::date"
    )
}

async fn drop_today(fixture: &Fixture, pinned_max: i32) -> (String, i64) {
    let sql = "select result, pinned
        from postrider.drop_event_day((now() at time zone 'UTC')::date, $1)";
    let row = fixture.client.query_one(sql, &[&pinned_max]).await.unwrap();
    (row.get(0), row.get(1))
}

async fn subjects(fixture: &Fixture, table: &str) -> Vec<String> {
    let sql = format!("select subject from postrider.{table} order by subject");
    fixture.client.query(&sql, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn retention_is_seven_days_one_day_and_seven_days_by_default() {
    let fixture = Fixture::new().await;
    let sql = "select count(*) from postrider.setting
        where event_retention = '7 days' and completed_retention = '24 hours'
          and discarded_retention = '7 days' and idempotency_window = '7 days'";
    assert_eq!(fixture.count(sql).await, 1);
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
        insert into postrider.fanout (seq, occurred_at, fanned_out_at, routing_version, subscription_ids, job_ids)
          select seq, occurred_at, now(), 1, '{}', '{}' from postrider.event;
        insert into postrider.job_history (id, finished_at, started_at, created_at, subscription_id,
            attempt, extra_attempts, state, origin, priority, tenant, last_error)
          select n, now() + n * interval '1 day', now(), now(), 1, 1, 0,
            (case when n % 2 = 0 then 'completed' else 'discarded' end)::postrider.job_state, 'enqueue', 2, '', 'x'
          from generate_series(10, 14) n;
        insert into postrider.job_attempt
          select n, 1, now(), now() + n * interval '1 day', null, 'retry', 'x' from generate_series(10, 14) n";
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
            left += fixture.count(&format!("select count(*) from postrider.{table}_default")).await;
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

/// Records events and brings each into the state that its subject names.
const STATES: &str = "
    select postrider.record('a.b', s) from unnest(array['done', 'discarded', 'owed', 'failing', 'poisoned', 'unfinished']) s;
    insert into postrider.fanout_failure (seq, occurred_at, tenant, key, attempts, retry_at, poisoned_at, last_error)
      select seq, occurred_at, tenant, key, 1,
        case when subject = 'failing' then now() + interval '100 days' end,
        case when subject = 'poisoned' then now() end, 'x'
      from postrider.event where subject in ('failing', 'poisoned');
    insert into postrider.fanout (seq, occurred_at, fanned_out_at, routing_version, subscription_ids, job_ids)
      select seq, occurred_at, now(), 1, array[(select id from postrider.subscription)], array[seq]
      from postrider.event where subject in ('done', 'discarded', 'unfinished');
    insert into postrider.job (id, event_seq, event_occurred_at, due_at, created_at, subscription_id, origin, priority, tenant)
      select seq, seq, occurred_at, now() + interval '100 days', now(), (select id from postrider.subscription), 'fanout', 2, ''
      from postrider.event where subject = 'unfinished';
    insert into postrider.job_history (id, event_seq, event_occurred_at, finished_at, started_at, created_at,
        subscription_id, attempt, extra_attempts, state, origin, priority, tenant, last_error)
      select seq, seq, occurred_at, now(), now(), now(), (select id from postrider.subscription), 1, 0,
        (case subject when 'done' then 'completed' else 'discarded' end)::postrider.job_state, 'fanout', 2, '', 'x'
      from postrider.event where subject in ('done', 'discarded');
    delete from postrider.owed where seq not in (select seq from postrider.event where subject = 'owed');";

/// A database with the subscription `s` and one event in each state.
async fn one_of_each() -> Fixture {
    let fixture = Fixture::new().await;
    let (handler, _) = collector();
    let engine = fixture.engine().declare(event_type("a.b"));
    let engine = engine.subscribe(Subscription::new("s", ["**"]).unwrap(), handler);
    engine.start().await.unwrap().shutdown().await;
    fixture.client.batch_execute(STATES).await.unwrap();
    fixture
}

#[tokio::test(flavor = "multi_thread")]
async fn a_day_is_dropped_but_for_what_is_owed_failing_poisoned_or_unfinished() {
    let fixture = one_of_each().await;
    let engine = keeper(&fixture).await;
    engine.advance_clock(6 * DAY);
    engine.maintain().await.unwrap();
    assert_eq!(fixture.count(&today_of("event")).await, 1, "dropped before its time");
    engine.advance_clock(3 * DAY);
    until_dropped(&fixture, &engine, "event").await;
    assert_eq!(fixture.count(&today_of("fanout")).await, 0);
    engine.maintain().await.unwrap();
    let kept = ["failing", "owed", "poisoned", "unfinished"];
    assert_eq!(subjects(&fixture, "event").await, kept);
    assert_eq!(subjects(&fixture, "event_default").await, kept);
    let fanned_out = "select count(*) from postrider.fanout
        join postrider.event using (seq, occurred_at) where subject = 'unfinished'";
    assert_eq!(fixture.count(fanned_out).await, 1);
    assert_eq!(fixture.count("select count(*) from postrider.fanout").await, 1);
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_outlived_its_day_is_delivered_and_then_forgotten() {
    let fixture = one_of_each().await;
    let engine = keeper(&fixture).await;
    engine.advance_clock(9 * DAY);
    until_dropped(&fixture, &engine, "event").await;
    engine.shutdown().await;
    let (handler, mut got) = collector();
    let engine = fixture.engine().declare(event_type("a.b"));
    let engine = engine.subscribe(Subscription::new("s", ["**"]).unwrap(), handler);
    let engine = engine.start().await.unwrap();
    engine.advance_clock(101 * DAY);
    let mut delivered = Vec::new();
    for _ in 0..3 {
        delivered.push(got.next().await.event.subject);
    }
    delivered.sort();
    assert_eq!(delivered, ["failing", "owed", "unfinished"]);
    wait_until("only the poisoned event is left", PATIENCE, async || {
        engine.maintain().await.unwrap();
        let left = subjects(&fixture, "event").await;
        (left == ["poisoned"]).then_some(()).ok_or(format!("{left:?}"))
    })
    .await;
    assert_eq!(fixture.count("select count(*) from postrider.fanout").await, 0);
    fixture.client.batch_execute("delete from postrider.fanout_failure").await.unwrap();
    engine.maintain().await.unwrap();
    assert_eq!(subjects(&fixture, "event").await, Vec::<String>::new());
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
    let blind = "create or replace function postrider.pinned_events(lower_bound timestamptz, upper_bound timestamptz)
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

#[tokio::test(flavor = "multi_thread")]
async fn history_and_attempts_go_by_their_own_retention() {
    let fixture = one_of_each().await;
    let attempt =
        "insert into postrider.job_attempt values (1, 1, now(), now(), null, 'retry', 'x')";
    fixture.client.batch_execute(attempt).await.unwrap();
    let history = async || {
        let sql = "select string_agg(state::text, ' ' order by state) from postrider.job_history";
        fixture
            .client
            .query_one(sql, &[])
            .await
            .unwrap()
            .get::<_, Option<String>>(0)
            .unwrap_or_default()
    };
    let engine = keeper(&fixture).await;
    engine.maintain().await.unwrap();
    assert_eq!(history().await, "completed discarded");
    engine.advance_clock(2 * DAY);
    until_dropped(&fixture, &engine, "job_completed").await;
    assert_eq!(history().await, "discarded");
    assert_eq!(fixture.count("select count(*) from postrider.job_attempt").await, 1);
    engine.advance_clock(7 * DAY);
    until_dropped(&fixture, &engine, "job_discarded").await;
    until_dropped(&fixture, &engine, "job_attempt").await;
    assert_eq!(history().await, "");
    assert_eq!(fixture.count("select count(*) from postrider.job_attempt").await, 0);
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retention_that_was_changed_holds_at_the_next_round() {
    let fixture = Fixture::new().await;
    let engine = keeper(&fixture).await;
    engine.advance_clock(9 * DAY);
    let longer = "update postrider.setting set event_retention = '30 days'";
    // The engine's own first round may have run under the default.
    fixture.client.batch_execute(longer).await.unwrap();
    let before = fixture.count(&today_of("event")).await;
    engine.maintain().await.unwrap();
    assert_eq!(fixture.count(&today_of("event")).await, before);
    let shorter = "update postrider.setting set event_retention = '1 hour'";
    fixture.client.batch_execute(shorter).await.unwrap();
    until_dropped(&fixture, &engine, "event").await;
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn several_processes_that_maintain_at_once_do_not_disturb_each_other() {
    let fixture = one_of_each().await;
    let mut engines = Vec::new();
    for _ in 0..4 {
        engines.push(keeper(&fixture).await);
    }
    for _ in 0..6 {
        let rounds = engines.iter().map(|engine| {
            engine.advance_clock(3 * DAY);
            engine.maintain()
        });
        let rounds: Vec<_> = rounds.map(Box::pin).collect();
        for round in futures_util::future::join_all(rounds).await {
            round.unwrap();
        }
    }
    for engine in &engines {
        until_dropped(&fixture, engine, "event").await;
    }
    assert_eq!(subjects(&fixture, "event").await, ["failing", "owed", "poisoned", "unfinished"]);
    for engine in engines {
        engine.shutdown().await;
    }
}
