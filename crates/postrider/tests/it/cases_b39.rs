//! B39: loops that must not die with the database. Each outage hits an engine that idles, one that
//! waits for the answer of a claim, and one that waits for the answer of a settle.

use std::time::Duration;

use postrider::{Engine, Handle, Part};
use postrider_embedded::PrivateServer;
use postrider_testkit::{TestServer, wait_until};
use tokio_postgres::Client;

use crate::fixture::{Fixture, PATIENCE};
use crate::gate::Gate;
use crate::health::{wait_ill, wait_nothing_left, wait_well};
use crate::support::{Seen, eager};

/// What the engine is about when the outage comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moment {
    Idle,
    Claiming,
    Settling,
}

const MOMENTS: [Moment; 3] = [Moment::Idle, Moment::Claiming, Moment::Settling];

/// An engine with one subscription whose handlers wait at a gate.
struct Running {
    fixture: Fixture,
    engine: Handle,
    seen: Seen,
    gate: Gate,
    recorded: usize,
}

impl Running {
    async fn new(fixture: Fixture) -> Self {
        fixture.declare(&["a.b"]).await;
        let (seen, gate) = (Seen::default(), Gate::closed());
        let handler = gate.handler();
        let engine = Engine::builder(fixture.database())
            .poll_interval(Duration::from_millis(200))
            .subscribe(eager("s", &["a.b"], 50), seen.then(handler))
            .start()
            .await
            .unwrap();
        Self { fixture, engine, seen, gate, recorded: 0 }
    }

    async fn record(&mut self) {
        self.recorded += 1;
        self.fixture.record("a.b", &format!("x{}", self.recorded)).await;
    }

    /// Brings the engine to the moment. What blocks it there ends with the returned client.
    async fn reach(&mut self, moment: Moment) -> Client {
        let other = self.fixture.db.client().await;
        other.batch_execute("set application_name = 'blocker'; begin").await.unwrap();
        match moment {
            Moment::Idle => {}
            Moment::Claiming => {
                self.fixture.sql("update postrider.subscription set paused_at = now()").await;
                self.record().await;
                self.fixture.wait_fanned_out().await;
                let lock = "lock table postrider.subscription in access exclusive mode";
                other.batch_execute(lock).await.unwrap();
                self.wait_blocked("-- Claims due jobs%").await;
            }
            Moment::Settling => {
                let before = self.seen.runs().len();
                self.record().await;
                self.seen.wait_for(before + 1).await;
                let lock = "lock table postrider.job_history in access exclusive mode";
                other.batch_execute(lock).await.unwrap();
                self.gate.let_pass(1);
                self.wait_blocked("-- Settles%").await;
            }
        }
        other
    }

    async fn wait_blocked(&self, statement: &str) {
        let sql = format!(
            "select count(*) from pg_stat_activity where datname = current_database()
               and wait_event_type = 'Lock' and query like '{statement}'"
        );
        wait_until("the statement waits for the lock", PATIENCE, async || {
            (self.fixture.count(&sql).await > 0).then_some(()).ok_or("it does not".to_owned())
        })
        .await;
    }

    /// After the outage: what was recorded before and what is recorded now is handled.
    async fn recover(&mut self) {
        self.fixture.sql("update postrider.subscription set paused_at = null").await;
        self.gate.open();
        self.record().await;
        wait_nothing_left(&self.fixture).await;
        wait_well(&self.engine).await;
        let mut subjects = self.seen.subjects("s");
        subjects.dedup();
        assert_eq!(subjects.len(), self.recorded, "{subjects:?}");
        let poisoned = "select count(*) from postrider.fanout_failure";
        assert_eq!(self.fixture.count(poisoned).await, 0);
    }

    fn close_gate(&mut self) {
        self.gate.close();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b39_every_loop_is_back_after_each_of_its_connections_was_terminated() {
    let mut running = Running::new(Fixture::new().await).await;
    for moment in MOMENTS {
        running.close_gate();
        let blocker = running.reach(moment).await;
        running
            .fixture
            .sql(
                "select pg_terminate_backend(pid) from pg_stat_activity
                 where datname = current_database() and application_name like 'postrider%'",
            )
            .await;
        blocker.batch_execute("commit").await.unwrap();
        running.recover().await;
    }
    running.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b39_every_loop_is_back_after_the_server_crashed_and_started_again() {
    let mut server: PrivateServer = TestServer::own().await;
    let mut running = Running::new(Fixture::on(&server).await).await;
    for moment in MOMENTS {
        running.close_gate();
        let _blocker = running.reach(moment).await;
        server.kill_hard().await;
        wait_ill(&running.engine, Part::Claims).await;
        wait_ill(&running.engine, Part::Relay).await;
        wait_ill(&running.engine, Part::Listener).await;
        server.restart().await.unwrap();
        running.fixture.reconnect().await;
        running.recover().await;
    }
    running.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b39_every_loop_is_back_after_the_server_took_no_writes_for_a_while() {
    let server = TestServer::own().await;
    let mut running = Running::new(Fixture::on(&server).await).await;
    let read_only = |on: bool| {
        format!(
            "alter system set default_transaction_read_only = {};",
            if on { "on" } else { "off" }
        )
    };
    let mine = "set default_transaction_read_only = off";
    running.fixture.sql(mine).await;
    for moment in MOMENTS {
        running.close_gate();
        let blocker = running.reach(moment).await;
        running.fixture.sql(&read_only(true)).await;
        running.fixture.sql("select pg_reload_conf()").await;
        blocker.batch_execute("rollback").await.unwrap();
        wait_ill(&running.engine, Part::Claims).await;
        wait_ill(&running.engine, Part::Relay).await;
        wait_ill(&running.engine, Part::Listener).await;
        running.fixture.sql(&read_only(false)).await;
        running.fixture.sql("select pg_reload_conf()").await;
        running.recover().await;
    }
    running.engine.shutdown().await;
}
