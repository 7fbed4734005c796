//! Real processes that are killed or stopped in the middle: the test program starts itself again.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use postrider::{Delivery, Subscription};
use postrider_testkit::wait_until;

use crate::fixture::{Fixture, PATIENCE};
use crate::support::{Seen, eager};

/// Where the second process finds its database; unset in every other run.
const URL: &str = "POSTRIDER_IT_URL";

/// The second process: a relay and a worker whose handlers never end by themselves. In a run of the
/// tests it has nothing to do and ends at once.
#[tokio::test(flavor = "multi_thread")]
async fn second_process() {
    let Ok(url) = std::env::var(URL) else { return };
    let database = postrider::Database::new(&url).unwrap().pool_size(8);
    let endless = async |_: Delivery| std::future::pending::<()>().await;
    let _engine = postrider::Engine::builder(database)
        .name("second")
        .lease(Duration::from_secs(3))
        .poll_interval(Duration::from_millis(100))
        .subscribe(eager("s", &["a.b"], 5), endless)
        .start()
        .await
        .unwrap();
    std::future::pending::<()>().await;
}

/// Ends the second process with its value, also when the test fails.
pub(crate) struct Second(Child);

impl Second {
    pub(crate) fn start(fixture: &Fixture) -> Self {
        let program = std::env::current_exe().unwrap();
        let child = Command::new(program)
            .args(["--exact", "killed::second_process"])
            .env(URL, fixture.db.url())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self(child)
    }

    fn signal(&self, name: &str) {
        let id = self.0.id().to_string();
        assert!(Command::new("kill").args([name, &id]).status().unwrap().success());
    }

    pub(crate) fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Second {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A type, five recorded events, and a second process that has all five jobs running.
pub(crate) async fn five_running() -> (Fixture, Second) {
    let fixture = Fixture::new().await;
    fixture.declare(&["a.b"]).await;
    let second = Second::start(&fixture);
    let ready = "select count(*) from postrider.registration";
    fixture.wait_count(ready, 1).await;
    fixture.record_many("a.b", "x", 5).await;
    fixture.wait_count("select count(*) from postrider.job where state = 'running'", 5).await;
    (fixture, second)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_running_jobs_of_a_process_killed_with_sigkill_run_elsewhere() {
    let (fixture, mut second) = five_running().await;
    second.kill();
    let seen = Seen::default();
    let engine =
        fixture.engine().subscribe(eager("s", &["a.b"], 5), seen.handler()).start().await.unwrap();
    fixture.wait_finished().await;
    engine.shutdown().await;
    assert_eq!(seen.subjects("s"), ["x1", "x2", "x3", "x4", "x5"]);
    assert!(seen.runs().iter().all(|run| run.attempt == 2));
    let lost = "select count(*) from postrider.job_attempt
                where outcome = 'lost'
                  and error like 'attempt 1 of 5 died with its process (second)'";
    assert_eq!(fixture.count(lost).await, 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_was_stopped_past_its_lease_changes_nothing_when_it_wakes_up() {
    let (fixture, second) = five_running().await;
    second.signal("-STOP");
    let seen = Seen::default();
    let engine =
        fixture.engine().subscribe(eager("s", &["a.b"], 5), seen.handler()).start().await.unwrap();
    fixture.wait_finished().await;
    let finished = "select string_agg(h::text, ' ' order by id) from postrider.job_history h";
    let before = fixture.texts(finished).await;
    second.signal("-CONT");
    // It finds its session ended, and opens another one.
    let again = "select count(*) from postrider.session where name = 'second' and ended_at is null";
    fixture.wait_count(again, 1).await;
    assert_eq!(fixture.texts(finished).await, before);
    assert_eq!(fixture.count("select count(*) from postrider.job").await, 0);
    let outcomes = "select distinct outcome from postrider.job_attempt";
    assert_eq!(fixture.texts(outcomes).await, ["lost"]);
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_process_killed_inside_a_fan_out_loses_nothing_and_doubles_nothing() {
    let fixture = Fixture::new().await;
    fixture.declare(&["a.b"]).await;
    fixture
        .sql(
            "create function wait_for_42() returns trigger language plpgsql as $$
             begin perform pg_advisory_xact_lock_shared(42); return new; end $$;
             create trigger wait before insert on postrider.job
               for each row execute function wait_for_42();
             select pg_advisory_lock(42);",
        )
        .await;
    fixture.record_many("a.b", "x", 20).await;
    let mut second = Second::start(&fixture);
    let inside = "select count(*) from pg_locks where locktype = 'advisory' and not granted
        and database = (select oid from pg_database where datname = current_database())";
    fixture.wait_count(inside, 1).await;
    second.kill();
    fixture.sql("select pg_advisory_unlock(42)").await;
    let seen = Seen::default();
    let subscription: Subscription = eager("s", &["a.b"], 5);
    let engine = fixture.engine().subscribe(subscription, seen.handler()).start().await.unwrap();
    wait_until("every event is handled", PATIENCE, async || {
        let handled = seen.runs().len();
        (handled == 20).then_some(()).ok_or(format!("{handled} are"))
    })
    .await;
    fixture.wait_finished().await;
    engine.shutdown().await;
    assert_eq!(fixture.count("select count(*) from postrider.fanout").await, 20);
    assert_eq!(
        fixture.count("select count(distinct event_seq) from postrider.job_history").await,
        20
    );
    assert_eq!(fixture.count("select count(*) from postrider.job_history").await, 20);
}
