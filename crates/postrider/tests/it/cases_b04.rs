//! Case B04: the lease of a healthy process does not run out, however slow its database is; a
//! process that cannot renew lets go.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use postrider::{Database, Delivery, Engine, Handle};
use postrider_testkit::{Proxy, wait_until};

use crate::fixture::{Fixture, PATIENCE};
use crate::gate::Gate;
use crate::support::{Seen, eager};

/// The case has 6 s and handlers of 20 s; here they wait at a gate for as long.
const LEASE: Duration = Duration::from_secs(9);
/// How long the line holds back each question and each answer.
const SLOW: Duration = Duration::from_millis(50);
/// Makes each heartbeat write take as long as in the case.
const SLOW_HEARTBEATS: &str = "
    create function slow() returns trigger language plpgsql as $$
      begin perform pg_sleep(2); return new; end $$;
    create trigger slow before update on postrider.session for each row
      when (new.expires_at <> old.expires_at) execute function slow()";

/// How many runs of each subject are inside their handler, and the most there ever were.
#[derive(Clone, Default)]
struct Inside(Arc<Mutex<HashMap<String, (i32, i32)>>>);

impl Inside {
    fn enter(&self, subject: &str) -> Leaving {
        let mut inside = self.0.lock().unwrap();
        let (now, most) = inside.entry(subject.to_owned()).or_default();
        *now += 1;
        *most = (*most).max(*now);
        Leaving(self.clone(), subject.to_owned())
    }

    fn now(&self) -> i32 {
        self.0.lock().unwrap().values().map(|(now, _)| now).sum()
    }

    fn most(&self) -> i32 {
        self.0.lock().unwrap().values().map(|(_, most)| *most).max().unwrap_or(0)
    }
}

/// Leaves when the handler ends or is stopped.
struct Leaving(Inside, String);

impl Drop for Leaving {
    fn drop(&mut self) {
        self.0.0.lock().unwrap().get_mut(&self.1).unwrap().0 -= 1;
    }
}

async fn engine(fixture: &Fixture, url: &str, seen: &Seen, gate: &Gate, inside: &Inside) -> Handle {
    let (gate, inside) = (gate.clone(), inside.clone());
    let handler = seen.then(move |delivery: Delivery| {
        let (gate, leaving) = (gate.clone(), inside.enter(&delivery.event.subject));
        async move {
            gate.pass().await;
            drop(leaving);
        }
    });
    fixture.declare(&["a.b"]).await;
    Engine::builder(Database::new(url).unwrap().pool_size(8))
        .lease(LEASE)
        .poll_interval(Duration::from_millis(100))
        .subscribe(eager("s", &["a.b"], 5), handler)
        .start()
        .await
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn b04_a_slow_database_does_not_make_a_healthy_process_lose_its_lease() {
    let fixture = Fixture::new().await;
    let proxy = Proxy::to_database(&fixture.db.url()).await;
    let url = proxy.url_through(&fixture.db.url());
    let (seen, gate, inside) = (Seen::default(), Gate::closed(), Inside::default());
    let one = engine(&fixture, &url, &seen, &gate, &inside).await;
    let two = engine(&fixture, &url, &seen, &gate, &inside).await;
    fixture.record_many("a.b", "x", 50).await;
    seen.wait_for(50).await;
    proxy.slow(SLOW);
    fixture.sql(SLOW_HEARTBEATS).await;
    let keeper = fixture.engine().without_relay().start().await.unwrap();
    // Each has renewed its lease until two leases are over.
    wait_until("both leases were renewed for long", PATIENCE, async || {
        keeper.maintain().await.unwrap();
        let renewed = "select count(*) from postrider.session
            where expires_at > started_at + interval '18 seconds' and ended_at is null
              and exists (select from postrider.registration r where r.session_id = session.id)";
        let renewed = fixture.count(renewed).await;
        (renewed == 2).then_some(()).ok_or(format!("{renewed} are"))
    })
    .await;
    proxy.slow(Duration::ZERO);
    gate.open();
    fixture.wait_finished().await;
    for handle in [one, two, keeper] {
        handle.shutdown().await;
    }
    assert_eq!(seen.runs().len(), 50, "no job was started a second time");
    assert_eq!(inside.most(), 1);
    let lost = "select count(*) from postrider.session where end_reason = 'lost'";
    assert_eq!(fixture.count(lost).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn b04_a_process_that_could_not_renew_for_a_lease_stops_its_handlers_and_is_refused() {
    let fixture = Fixture::new().await;
    let proxy = Proxy::to_database(&fixture.db.url()).await;
    let url = proxy.url_through(&fixture.db.url());
    let (seen, gate, inside) = (Seen::default(), Gate::closed(), Inside::default());
    let cut_off = engine(&fixture, &url, &seen, &gate, &inside).await;
    fixture.record_many("a.b", "x", 5).await;
    seen.wait_for(5).await;
    proxy.blackhole();
    wait_until("the handlers of the process that is cut off are stopped", PATIENCE, async || {
        let now = inside.now();
        (now == 0).then_some(()).ok_or(format!("{now} go on"))
    })
    .await;
    let (other_seen, other_inside) = (Seen::default(), Inside::default());
    gate.open();
    let url = fixture.db.url();
    let other = engine(&fixture, &url, &other_seen, &gate, &other_inside).await;
    fixture.wait_finished().await;
    let finished = "select string_agg(h::text, ' ' order by id) from postrider.job_history h";
    let before = fixture.texts(finished).await;
    proxy.restore();
    let back = "select count(*) from postrider.session where ended_at is null";
    fixture.wait_count(back, 2).await;
    cut_off.shutdown().await;
    other.shutdown().await;
    assert_eq!(fixture.texts(finished).await, before);
    assert!(other_seen.runs().iter().all(|run| run.attempt == 2), "{:?}", other_seen.runs());
    assert_eq!(other_seen.runs().len(), 5);
}
