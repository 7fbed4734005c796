//! Retention: what goes when its time is over, and what must outlive its day.

use postrider::Subscription;
use postrider_testkit::wait_until;

use crate::collect::collector;
use crate::fixture::{Fixture, PATIENCE, event_type};
use crate::maintenance::{DAY, keeper, subjects, today_of, until_dropped};

#[tokio::test(flavor = "multi_thread")]
async fn retention_is_seven_days_one_day_and_seven_days_by_default() {
    let fixture = Fixture::new().await;
    let sql = "select count(*) from postrider.setting
        where event_retention = '7 days' and completed_retention = '24 hours'
          and discarded_retention = '7 days' and idempotency_window = '7 days'";
    assert_eq!(fixture.count(sql).await, 1);
}

/// Records events and brings each into the state that its subject names.
const STATES: &str = "
    select postrider.record('a.b', s) from unnest(array['done', 'discarded', 'owed', 'failing',
      'poisoned', 'unfinished']) s;
    insert into postrider.fanout_failure (seq, occurred_at, tenant, key, attempts, retry_at,
      poisoned_at, last_error)
      select seq, occurred_at, tenant, key, 1,
        case when subject = 'failing' then now() + interval '100 days' end,
        case when subject = 'poisoned' then now() end, 'x'
      from postrider.event where subject in ('failing', 'poisoned');
    insert into postrider.fanout (seq, occurred_at, fanned_out_at, routing_version,
      subscription_ids, job_ids)
      select seq, occurred_at, now(), 1, array[(select id from postrider.subscription)], array[seq]
      from postrider.event where subject in ('done', 'discarded', 'unfinished');
    insert into postrider.job (id, event_seq, event_occurred_at, due_at, created_at,
      subscription_id, origin, priority, tenant)
      select seq, seq, occurred_at, now() + interval '100 days', now(),
        (select id from postrider.subscription), 'fanout', 2, ''
      from postrider.event where subject = 'unfinished';
    insert into postrider.job_history (id, event_seq, event_occurred_at, finished_at, started_at,
      created_at,
        subscription_id, attempt, extra_attempts, state, origin, priority, tenant, last_error)
      select seq, seq, occurred_at, now(), now(), now(), (select id from postrider.subscription),
        1, 0,
        (case subject when 'done' then 'completed' else 'discarded' end)::postrider.job_state,
          'fanout', 2, '', 'x'
      from postrider.event where subject in ('done', 'discarded');
    delete from postrider.owed where seq not in (select seq from postrider.event where subject =
      'owed');";

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
