//! After a process died in a pass, the first batch of the next relay goes row by row; a relay that
//! is alive elsewhere makes nobody slow.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use postrider::Handle;

use crate::fixture::Fixture;

const JOBS: &str = "select count(*) from postrider.job";
const OWED: &str = "select count(*) from postrider.owed";
const ALONE: &str = "select count(*) from postrider.fanout_failure where attempts = 1";
/// The relays that stand in a fan-out because it waits for the gate.
const INSIDE: &str = "select count(*) from pg_locks where locktype = 'advisory' and not granted
    and database = (select oid from pg_database where datname = current_database())
    and objid = 42";

/// Ten owed events, and a gate in front of every job that is made.
async fn ten_behind_a_gate() -> Fixture {
    let fixture = Fixture::new().await;
    fixture.declare(&["a.b"]).await;
    fixture.subscription("s", &["a.b"]).await;
    fixture
        .sql(
            "create function wait_for_42() returns trigger language plpgsql as $$
             begin perform pg_advisory_xact_lock_shared(42); return new; end $$;
             create trigger wait before insert on postrider.job
               for each row execute function wait_for_42();
             select pg_advisory_lock(42);",
        )
        .await;
    fixture.record_many("a.b", "x", 10).await;
    fixture
}

impl Fixture {
    /// A session of another relay, with what the columns `expires_at, ended_at, end_reason` hold.
    async fn other_relay(&self, name: &str, columns: &str) {
        self.sql(&format!(
            "insert into postrider.session
               (id, name, version, runs_relay, started_at, expires_at, ended_at, end_reason)
             values (gen_random_uuid(), '{name}', '0', true, now(), {columns})"
        ))
        .await;
    }

    async fn open_gate(&self) {
        self.sql("select pg_advisory_unlock(42)").await;
    }

    /// Starts a relay named `here:1` and returns it once it stands in its first fan-out, with how
    /// many events it moved apart and how many it left.
    async fn relay_inside(&self) -> (Handle, i64, i64) {
        let engine = self.engine().name("here:1").start().await.unwrap();
        self.wait_count(INSIDE, 1).await;
        (engine, self.count(ALONE).await, self.count(OWED).await)
    }
}

/// Beside another relay with these columns, whether the first batch goes row by row.
async fn is_suspect(name: &str, columns: &str) -> bool {
    let fixture = ten_behind_a_gate().await;
    fixture.other_relay(name, columns).await;
    let (engine, alone, left) = fixture.relay_inside().await;
    fixture.open_gate().await;
    fixture.wait_count(JOBS, 10).await;
    engine.shutdown().await;
    assert_eq!(fixture.count("select count(*) from postrider.fanout_failure").await, 0);
    // The suspect is apart and counted while it is tried; the others are not even touched.
    match (alone, left) {
        (1, 9) => true,
        (0, 10) => false,
        other => panic!("neither row by row nor at once: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_relay_was_lost_the_first_batch_goes_row_by_row() {
    let columns = "now() - interval '9 minutes', now() - interval '9 minutes', 'lost'";
    assert!(is_suspect("there:1", columns).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_that_was_lost_long_ago_is_forgotten() {
    let columns = "now() - interval '11 minutes', now() - interval '11 minutes', 'lost'";
    assert!(!is_suspect("there:1", columns).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_that_stopped_in_order_is_not_suspect_not_even_on_this_host() {
    let columns = "now() + interval '3 seconds', now(), 'stopped'";
    assert!(!is_suspect("here:2", columns).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_that_missed_a_renewal_is_suspect() {
    // Of a lease of 15 s, 10 s are left at the next renewal, and 8 s if that is slow.
    assert!(is_suspect("there:1", "now() + interval '5 seconds', null, null").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_that_is_alive_on_another_host_is_not_suspect() {
    assert!(!is_suspect("there:1", "now() + interval '1 hour', null, null").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_on_this_host_whose_process_is_gone_is_suspect_before_it_misses_a_renewal() {
    // Linux gives out no larger process id than the one before this.
    assert!(is_suspect("here:4194305", "now() + interval '1 hour', null, null").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_on_this_host_whose_process_was_killed_but_not_waited_for_is_suspect() {
    let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
    child.kill().unwrap();
    let name = format!("here:{}", child.id());
    let is_suspect = is_suspect(&name, "now() + interval '1 hour', null, null").await;
    child.wait().unwrap();
    assert!(is_suspect);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_on_this_host_whose_process_runs_is_not_suspect() {
    let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
    let name = format!("here:{}", child.id());
    let is_suspect = is_suspect(&name, "now() + interval '1 hour', null, null").await;
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!is_suspect);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_does_not_wait_for_every_suspect() {
    let fixture = ten_behind_a_gate().await;
    fixture.other_relay("there:1", "now() - interval '1 minute', now(), 'lost'").await;
    let (engine, alone, _) = fixture.relay_inside().await;
    assert_eq!(alone, 1);
    let mut stopping = pin!(engine.shutdown());
    // Its first step tells the relay to stop.
    poll_fn(|context| {
        assert!(stopping.as_mut().poll(context).is_pending());
        Poll::Ready(())
    })
    .await;
    fixture.open_gate().await;
    stopping.await;
    assert_eq!(fixture.count(JOBS).await, 1, "the one under way is finished, and no other begun");
    assert_eq!(fixture.count(OWED).await, 9);
}
