//! Stopping and starting: nothing is lost at a stop, and two versions of the code live side by
//! side.

use std::time::Duration;

use postrider::{Delivery, ErrorKind, Subscription};

use crate::fixture::{Fixture, event_type};
use crate::gate::Gate;
use crate::support::{Seen, eager};

const DUTY: &str = "select count(*) from pg_locks l, postrider.wake_keys() k
    where l.locktype = 'advisory' and l.granted and l.objsubid = 1
      and l.database = (select oid from pg_database where datname = current_database())
      and (l.classid::bigint << 32) | l.objid::bigint = k.duty";

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_ends_the_relay_first_and_waits_for_handlers_while_the_lease_is_renewed() {
    let mut fixture = Fixture::new().await;
    let (seen, gate) = (Seen::default(), Gate::closed());
    let engine = fixture
        .engine()
        .lease(Duration::from_secs(3))
        .declare(event_type("a.b"))
        .subscribe(eager("s", &["a.b"], 3), seen.then(gate.handler()))
        .start()
        .await
        .unwrap();
    fixture.record("a.b", "x").await;
    seen.wait_for(1).await;
    fixture.wait_count(DUTY, 1).await;
    let stopping = tokio::spawn(engine.shutdown());
    fixture.wait_count(DUTY, 0).await;
    fixture.record("a.b", "recorded after the relay ended").await;
    // Twice the lease: without renewals the session would be taken for lost.
    let renewed = "select count(*) from postrider.session
                   where expires_at > started_at + interval '7 seconds' and ended_at is null";
    fixture.wait_count(renewed, 1).await;
    assert!(!stopping.is_finished());
    gate.open();
    stopping.await.unwrap();
    let states = "select state || ' ' || attempt from postrider.job_history";
    assert_eq!(fixture.texts(states).await, ["completed 1"]);
    assert_eq!(fixture.texts("select end_reason from postrider.session").await, ["stopped"]);
    assert_eq!(fixture.count("select count(*) from postrider.owed").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_unfinished_after_the_drain_limit_goes_back_not_failed_and_not_lost() {
    let fixture = Fixture::new().await;
    let (seen, gate) = (Seen::default(), Gate::closed());
    let engine = fixture
        .engine()
        .drain_limit(Duration::from_millis(50))
        .declare(event_type("a.b"))
        .subscribe(eager("s", &["a.b"], 1), seen.then(gate.handler()))
        .start()
        .await
        .unwrap();
    fixture.record_many("a.b", "x", 3).await;
    seen.wait_for(3).await;
    engine.shutdown().await;
    let jobs = "select state || ' ' || attempt || ' ' || coalesce(last_error, '-') || ' '
                || (due_at <= clock_timestamp()) from postrider.job";
    assert_eq!(fixture.texts(jobs).await, ["pending 0 - true"; 3]);
    let log = "select outcome from postrider.job_attempt";
    assert_eq!(fixture.texts(log).await, ["released"; 3]);
    assert_eq!(fixture.count("select count(*) from postrider.lease").await, 0);
    // The next process runs them, although the policy permits one attempt only.
    let next = Seen::default();
    let engine =
        fixture.engine().subscribe(eager("s", &["a.b"], 1), next.handler()).start().await.unwrap();
    fixture.wait_finished().await;
    engine.shutdown().await;
    assert_eq!(next.subjects("s"), ["x1", "x2", "x3"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_handler_that_blocks_its_thread_does_not_hold_up_the_stop() {
    let mut fixture = Fixture::new().await;
    let seen = Seen::default();
    let (release, blocked) = std::sync::mpsc::channel::<()>();
    let blocked = std::sync::Arc::new(std::sync::Mutex::new(blocked));
    let handler = seen.then(move |_: Delivery| {
        let blocked = std::sync::Arc::clone(&blocked);
        async move {
            let _ = tokio::task::block_in_place(|| blocked.lock().unwrap().recv());
        }
    });
    let engine = fixture
        .engine()
        .drain_limit(Duration::from_millis(50))
        .declare(event_type("a.b"))
        .subscribe(eager("s", &["a.b"], 1), handler)
        .start()
        .await
        .unwrap();
    fixture.record("a.b", "x").await;
    seen.wait_for(1).await;
    engine.shutdown().await;
    assert_eq!(
        fixture.texts("select state || ' ' || attempt from postrider.job").await,
        ["pending 0"]
    );
    drop(release);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_under_a_load_without_end_stops_when_it_is_told_to() {
    let fixture = Fixture::new().await;
    fixture.declare(&["a.b"]).await;
    fixture.subscription("s", &["a.b"]).await;
    fixture.record_many("a.b", "x", 5000).await;
    let engine = fixture.engine().relay_batch(1).start().await.unwrap();
    let some = "select (count(*) > 0)::int::bigint from postrider.job";
    fixture.wait_count(some, 1).await;
    engine.shutdown().await;
    let owed = fixture.count("select count(*) from postrider.owed").await;
    assert!(owed > 0, "it went on until nothing was owed");
    assert_eq!(fixture.count("select count(*) from postrider.job").await, 5000 - owed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_that_is_too_small_is_refused_with_the_sum() {
    let fixture = Fixture::new().await;
    let database = || postrider::Database::new(&fixture.db.url()).unwrap();
    let small = postrider::Engine::builder(database().pool_size(1)).start().await;
    let error = small.err().expect("refused");
    assert_eq!(error.kind(), ErrorKind::Configuration);
    let own = "6 by the engine (relay, claims, settles, lease, maintenance, and one for callers)";
    let sum = format!("the pool has 1 connection, but 6 may be held at once: {own}");
    assert_eq!(error.to_string(), sum);
    assert_eq!(error.hint(), Some("set pool_size to 6"));
    let mut ledger = eager("ledger", &["a.b"], 1);
    ledger.policy.queue = "money".into();
    let error = postrider::Engine::builder(database().pool_size(12))
        .queue("money", 7)
        .subscribe_in_transaction(ledger, |_, _| Box::pin(async { Ok(None) }))
        .subscribe(eager("other", &["a.b"], 1), async |_: Delivery| ())
        .start()
        .await
        .err()
        .expect("refused");
    let sum = format!(
        "the pool has 12 connections, but 13 may be held at once: {own} and 7 by handlers in \
         transactions (7 in queue `money`)"
    );
    assert_eq!(error.to_string(), sum);
    let hint = "set pool_size to 13, or lower the limits of those queues";
    assert_eq!(error.hint(), Some(hint));
    assert_eq!(error.field(), Some("pool_size"));
}

/// What is declared and in force for the subscription `s`.
const GLOBS: &str = "select version || ' ' || declared_globs::text || ' ' || globs::text
                     from postrider.subscription";

#[tokio::test(flavor = "multi_thread")]
async fn two_versions_of_the_code_side_by_side_lose_nothing() {
    let mut fixture = Fixture::new().await;
    let (old_seen, new_seen) = (Seen::default(), Seen::default());
    let old_code = || Subscription::new("s", ["a.*", "b.*"]).unwrap();
    let new_code = || Subscription::new("s", ["b.*", "c.*"]).unwrap().version(2);
    let start_old = || {
        let builder = fixture.engine().declare(event_type("a.x")).declare(event_type("b.x"));
        builder.declare(event_type("c.x")).subscribe(old_code(), old_seen.handler()).start()
    };
    let old = start_old().await.unwrap();
    let new = fixture.engine().subscribe(new_code(), new_seen.handler()).start().await.unwrap();
    assert_eq!(fixture.texts(GLOBS).await, ["2 {b.*,c.*} {b.*,c.*,a.*}"]);
    // Another process of the old version starts, as in a rollback: it changes nothing.
    let again = start_old().await.unwrap();
    assert_eq!(fixture.texts(GLOBS).await, ["2 {b.*,c.*} {b.*,c.*,a.*}"]);
    again.shutdown().await;
    for name in ["a.x", "b.x", "c.x"] {
        fixture.record(name, name).await;
    }
    fixture.wait_finished().await;
    let mut handled = [old_seen.subjects("s"), new_seen.subjects("s")].concat();
    handled.sort();
    assert_eq!(handled, ["a.x", "b.x", "c.x"]);
    old.shutdown().await;
    assert_eq!(fixture.texts(GLOBS).await, ["2 {b.*,c.*} {b.*,c.*}"], "narrowed with its end");
    fixture.record("a.x", "nobody's").await;
    fixture.record("c.x", "later").await;
    fixture.wait_finished().await;
    new.shutdown().await;
    assert!(new_seen.subjects("s").contains(&"later".to_owned()));
    assert!(!new_seen.subjects("s").contains(&"nobody's".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_schema_refuses_old_programs_at_start_and_leaves_those_that_run_at_work() {
    let mut fixture = Fixture::new().await;
    let seen = Seen::default();
    let old = || fixture.engine().declare(event_type("a.b"));
    let engine = old().subscribe(eager("s", &["a.b"], 3), seen.handler()).start().await.unwrap();
    let newcomer = old();
    fixture.record("a.b", "before").await;
    seen.wait_for(1).await;
    fixture.sql("insert into postrider.migration (version, name) values (99, 'future')").await;
    let refused = newcomer.start().await.err().expect("the schema is of the future");
    assert_eq!(refused.kind(), ErrorKind::Schema);
    let sessions = "select count(*) from postrider.session";
    assert_eq!(fixture.count(sessions).await, 1, "it is refused before it takes part");
    fixture.record("a.b", "after").await;
    seen.wait_for(2).await;
    fixture.wait_finished().await;
    engine.shutdown().await;
    assert_eq!(seen.subjects("s"), ["after", "before"]);
}
