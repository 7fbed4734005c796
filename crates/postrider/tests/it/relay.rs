//! The relay: claims per row, loses nothing that commits late, and never fans an event out twice.

use postrider::{NewEvent, Recorder};
use postrider_testkit::wait_until;

use crate::fixture::{Fixture, PATIENCE};

/// Waits until relays have looked at what is owed `looks` more times.
pub(crate) async fn relays_look(fixture: &Fixture, looks: i64) {
    let sql = "select coalesce(idx_scan, 0) + coalesce(seq_scan, 0) from pg_stat_user_tables
               where schemaname = 'postrider' and relname = 'owed'";
    let before = fixture.count(sql).await;
    wait_until("relays have looked again", PATIENCE, async || {
        let now = fixture.count(sql).await;
        (now >= before + looks).then_some(()).ok_or(format!("{} looks", now - before))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_commits_after_a_later_one_was_fanned_out_is_fanned_out_too() {
    let mut fixture = Fixture::new().await;
    fixture.declare(&["a.b"]).await;
    fixture.subscription("s", &["a.b"]).await;
    let engine = fixture.engine().start().await.unwrap();
    let mut late = fixture.db.client().await;
    let mut open = late.transaction().await.unwrap();
    let event = NewEvent::new("a.b", "early").unwrap();
    Recorder::default().record(&mut open, &event).await.unwrap();
    fixture.record("a.b", "late").await;
    fixture.wait_count("select count(*) from postrider.job", 1).await;
    open.commit().await.unwrap();
    fixture.wait_count("select count(*) from postrider.job", 2).await;
    let sql = "select e.subject from postrider.job j
               join postrider.event e on e.seq = j.event_seq order by j.id";
    assert_eq!(fixture.texts(sql).await, ["late", "early"], "claimed in the order of commits");
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lone_writer_that_stays_open_while_the_relay_looks_again_and_again_is_not_passed_by() {
    let fixture = Fixture::new().await;
    fixture.declare(&["a.b"]).await;
    fixture.subscription("s", &["a.b"]).await;
    let engine = fixture.engine().start().await.unwrap();
    let mut late = fixture.db.client().await;
    let mut open = late.transaction().await.unwrap();
    let event = NewEvent::new("a.b", "only").unwrap();
    Recorder::default().record(&mut open, &event).await.unwrap();
    // Nobody else writes, so the newest id that has ended stays below the writer's: a bound taken
    // from there would move past the event.
    relays_look(&fixture, 60).await;
    open.commit().await.unwrap();
    fixture.wait_count("select count(*) from postrider.job", 1).await;
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_very_first_event_of_a_new_instance_is_found_after_the_relay_has_looked_for_a_while() {
    let mut fixture = Fixture::new().await;
    fixture.declare(&["a.b"]).await;
    fixture.subscription("s", &["a.b"]).await;
    let engine = fixture.engine().start().await.unwrap();
    relays_look(&fixture, 60).await;
    fixture.record("a.b", "first").await;
    fixture.wait_count("select count(*) from postrider.job", 1).await;
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_commit_is_found_although_others_go_on_writing_above_it() {
    let fixture = Fixture::new().await;
    fixture.declare(&["a.b"]).await;
    fixture.subscription("s", &["a.b"]).await;
    let engine = fixture.engine().relay_batch(20).start().await.unwrap();
    let mut late = fixture.db.client().await;
    let mut open = late.transaction().await.unwrap();
    let event = NewEvent::new("a.b", "late").unwrap();
    Recorder::default().record(&mut open, &event).await.unwrap();
    let writing = tokio::spawn({
        let mut writer = fixture.db.client().await;
        async move {
            loop {
                let event = NewEvent::new("a.b", "other").unwrap();
                Recorder::default().record(&mut writer, &event).await.unwrap();
            }
        }
    });
    let others = "select (count(*) >= 300)::int::bigint from postrider.job";
    fixture.wait_count(others, 1).await;
    open.commit().await.unwrap();
    let found = "select count(*) from postrider.job j
                 join postrider.event e on e.seq = j.event_seq where e.subject = 'late'";
    fixture.wait_count(found, 1).await;
    assert!(!writing.is_finished(), "the load went on all the time");
    writing.abort();
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_hole_that_a_rollback_leaves_holds_up_nothing() {
    let mut fixture = Fixture::new().await;
    fixture.declare(&["a.b"]).await;
    fixture.subscription("s", &["a.b"]).await;
    let engine = fixture.engine().start().await.unwrap();
    let mut other = fixture.db.client().await;
    let mut open = other.transaction().await.unwrap();
    let event = NewEvent::new("a.b", "phantom").unwrap();
    Recorder::default().record(&mut open, &event).await.unwrap();
    fixture.record("a.b", "before").await;
    fixture.wait_count("select count(*) from postrider.job", 1).await;
    open.rollback().await.unwrap();
    fixture.record("a.b", "after").await;
    fixture.wait_count("select count(*) from postrider.job", 2).await;
    engine.shutdown().await;
    assert_eq!(fixture.count("select count(*) from postrider.fanout").await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fan_out_transaction_takes_no_more_events_than_its_batch() {
    let fixture = Fixture::new().await;
    fixture.declare(&["a.b"]).await;
    fixture.subscription("s", &["a.b"]).await;
    fixture.record_many("a.b", "x", 100).await;
    let engine = fixture.engine().relay_batch(7).start().await.unwrap();
    fixture.wait_fanned_out().await;
    engine.shutdown().await;
    let sql = "select count(*) from postrider.fanout group by fanned_out_at
               order by min(seq)";
    let rows = fixture.client.query(sql, &[]).await.unwrap();
    let batches: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(batches.iter().sum::<i64>(), 100);
    assert_eq!(batches.iter().max(), Some(&7), "{batches:?}");
    assert_eq!(batches.len(), 15, "full batches and a rest: {batches:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn five_relays_at_once_make_exactly_one_job_for_each_event_and_subscription() {
    let fixture = Fixture::new().await;
    fixture.declare(&["a.b"]).await;
    for name in ["s1", "s2", "s3"] {
        fixture.subscription(name, &["a.b"]).await;
    }
    let mut engines = Vec::new();
    for _ in 0..5 {
        engines.push(fixture.engine().relay_batch(10).start().await.unwrap());
    }
    let writers = (0..4).map(async |writer| {
        let client = fixture.db.client().await;
        for n in 0..50 {
            let sql = "select postrider.record('a.b', $1 || n::text) from generate_series(1, 10) n";
            client.execute(sql, &[&format!("{writer}/{n}/")]).await.unwrap();
        }
    });
    for writer in writers {
        writer.await;
    }
    fixture.wait_fanned_out().await;
    for engine in engines {
        engine.shutdown().await;
    }
    assert_eq!(fixture.count("select count(*) from postrider.fanout").await, 2000);
    assert_eq!(fixture.count("select count(*) from postrider.job").await, 6000);
    let pairs = "select count(distinct (event_seq, subscription_id)) from postrider.job";
    assert_eq!(fixture.count(pairs).await, 6000);
    let named =
        "select count(*) from postrider.fanout f, unnest(f.job_ids, f.subscription_ids) u(j, s)
                 join postrider.job on job.id = u.j and job.subscription_id = u.s
                 where job.event_seq = f.seq";
    assert_eq!(fixture.count(named).await, 6000, "the record of the fan-out names the jobs");
}

/// Makes every insert of a job wait while somebody holds the advisory lock 42.
async fn jobs_wait_for_lock_42(fixture: &Fixture) {
    fixture
        .sql(
            "create function wait_for_42() returns trigger language plpgsql as $$
             begin perform pg_advisory_xact_lock_shared(42); return new; end $$;
             create trigger wait before insert on postrider.job
               for each row execute function wait_for_42();",
        )
        .await;
}

/// The backend that waits for an advisory lock, once there is one.
async fn waiting_backend(fixture: &Fixture) -> i32 {
    wait_until("a backend waits for an advisory lock", PATIENCE, async || {
        let sql = "select pid from pg_locks where locktype = 'advisory' and not granted
                   and database = (select oid from pg_database where datname = current_database())";
        let rows = fixture.client.query(sql, &[]).await.unwrap();
        rows.first().map(|row| row.get(0)).ok_or("none does".to_owned())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backend_that_is_killed_inside_a_fan_out_leaves_nothing_behind_and_it_is_done_again() {
    let fixture = Fixture::new().await;
    fixture.declare(&["a.b"]).await;
    fixture.subscription("s", &["a.b"]).await;
    jobs_wait_for_lock_42(&fixture).await;
    fixture.sql("select pg_advisory_lock(42)").await;
    fixture.record_many("a.b", "x", 3).await;
    let engine = fixture.engine().start().await.unwrap();
    let inside = waiting_backend(&fixture).await;
    fixture.client.execute("select pg_terminate_backend($1)", &[&inside]).await.unwrap();
    let gone = format!("select count(*) from pg_stat_activity where pid = {inside}");
    fixture.wait_count(&gone, 0).await;
    let kept = "select (select count(*) from postrider.owed)
                     + (select count(*) from postrider.fanout_failure)";
    assert_eq!(fixture.count(kept).await, 3, "all marks are back");
    assert_eq!(fixture.count("select count(*) from postrider.fanout").await, 0);
    fixture.sql("select pg_advisory_unlock(42)").await;
    fixture.wait_count("select count(*) from postrider.job", 3).await;
    fixture.wait_count(kept, 0).await;
    engine.shutdown().await;
    assert_eq!(fixture.count("select count(*) from postrider.fanout").await, 3);
    assert_eq!(fixture.count("select count(distinct event_seq) from postrider.job").await, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fan_out_waits_for_a_change_of_routes_that_is_under_way() {
    let mut fixture = Fixture::new().await;
    fixture.declare(&["a.b"]).await;
    fixture.subscription("s", &["a.b"]).await;
    let engine = fixture.engine().start().await.unwrap();
    let change = fixture.db.client().await;
    let lock = "begin; select pg_advisory_xact_lock(routing) from postrider.wake_keys();";
    change.batch_execute(lock).await.unwrap();
    fixture.record("a.b", "x").await;
    waiting_backend(&fixture).await;
    // The change is not committed, so neither its routes nor those before it may be used.
    assert_eq!(fixture.count("select count(*) from postrider.job").await, 0);
    let add = "with new as (
          insert into postrider.subscription
            (name, globs, declared_globs, backoff, created_routing_version)
          values ('second', '{a.b}', '{a.b}', '{}', 2) returning id)
        insert into postrider.route select 'a.b', id from new;
        update postrider.routing set version = version + 1;
        commit;";
    change.batch_execute(add).await.unwrap();
    fixture.wait_count("select count(*) from postrider.job", 2).await;
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_routes_waits_for_the_fan_out_that_is_under_way() {
    let mut fixture = Fixture::new().await;
    fixture.declare(&["a.b"]).await;
    fixture.subscription("s", &["a.b"]).await;
    let engine = fixture.engine().start().await.unwrap();
    jobs_wait_for_lock_42(&fixture).await;
    fixture.sql("select pg_advisory_lock(42)").await;
    fixture.record("a.b", "x").await;
    waiting_backend(&fixture).await;
    let second = postrider::Subscription::new("second", ["a.b"]).unwrap();
    let builder = fixture.engine().without_relay().subscribe(second, async |_| ());
    let starting = tokio::spawn(builder.start());
    let both_wait = "select count(*) from pg_locks where locktype = 'advisory' and not granted
        and database = (select oid from pg_database where datname = current_database())";
    fixture.wait_count(both_wait, 2).await;
    let known = "select count(*) from postrider.subscription where name = 'second'";
    assert_eq!(fixture.count(known).await, 0);
    fixture.sql("select pg_advisory_unlock(42)").await;
    let second = starting.await.unwrap().unwrap();
    assert_eq!(fixture.count(known).await, 1);
    let jobs = "select count(*) from postrider.fanout where cardinality(job_ids) = 1";
    fixture.wait_count(jobs, 1).await;
    second.shutdown().await;
    engine.shutdown().await;
}
