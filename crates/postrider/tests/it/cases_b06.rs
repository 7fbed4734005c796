//! Case B06: a process that is told to stop keeps its leases while it drains, and gives back what
//! it cannot finish. The case has a slow webhook; here handlers wait at a gate.

use std::time::Duration;

use tokio::sync::oneshot;

use crate::fixture::Fixture;
use crate::gate::Gate;
use crate::support::{Seen, eager};

/// As in the case.
const LEASE: Duration = Duration::from_secs(5);

#[tokio::test(flavor = "multi_thread")]
async fn b06_a_process_that_drains_keeps_its_lease_and_the_job_runs_once() {
    let mut fixture = Fixture::new().await;
    fixture.declare(&["a.b"]).await;
    let (seen, other, gate) = (Seen::default(), Seen::default(), Gate::closed());
    let draining = fixture
        .engine()
        .lease(LEASE)
        .drain_limit(Duration::from_secs(60))
        .subscribe(eager("s", &["a.b"], 3), seen.then(gate.handler()))
        .start()
        .await
        .unwrap();
    fixture.record("a.b", "x").await;
    seen.wait_for(1).await;
    let (terminate, terminated) = oneshot::channel::<()>();
    let stopping = tokio::spawn(draining.run_until(async { terminated.await.unwrap() }));
    let b = eager("s", &["a.b"], 3);
    let b = fixture.engine().lease(LEASE).subscribe(b, other.handler()).start().await.unwrap();
    terminate.send(()).unwrap();
    // More than two leases go by, of which only renewals can be the reason.
    let renewed = "select count(*) from postrider.session o
        where expires_at > started_at + interval '12 seconds' and ended_at is null
          and exists (select from postrider.lease l where l.session_id = o.id)";
    fixture.wait_count(renewed, 1).await;
    b.maintain().await.unwrap();
    assert_eq!(other.runs().len(), 0, "the other process stays off");
    gate.open();
    stopping.await.unwrap().unwrap();
    fixture.wait_finished().await;
    b.shutdown().await;
    assert_eq!((seen.runs().len(), other.runs().len()), (1, 0));
    let states = "select state || ' ' || attempt from postrider.job_history";
    assert_eq!(fixture.texts(states).await, ["completed 1"]);
    assert_eq!(fixture.count("select count(*) from postrider.job_attempt").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn b06_what_is_not_finished_within_the_drain_limit_is_delivered_by_the_other_process() {
    let mut fixture = Fixture::new().await;
    fixture.declare(&["a.b"]).await;
    let (seen, other, gate) = (Seen::default(), Seen::default(), Gate::closed());
    let draining = fixture
        .engine()
        .drain_limit(Duration::from_millis(300))
        .subscribe(eager("s", &["a.b"], 1), seen.then(gate.handler()))
        .start()
        .await
        .unwrap();
    fixture.record("a.b", "x").await;
    seen.wait_for(1).await;
    let b = eager("s", &["a.b"], 1);
    let b = fixture.engine().subscribe(b, other.handler()).start().await.unwrap();
    draining.shutdown().await;
    fixture.wait_finished().await;
    b.shutdown().await;
    assert_eq!((seen.runs().len(), other.runs().len()), (1, 1));
    let log = "select outcome from postrider.job_attempt";
    assert_eq!(fixture.texts(log).await, ["released"], "not failed");
    let states = "select state || ' ' || attempt from postrider.job_history";
    assert_eq!(fixture.texts(states).await, ["completed 1"]);
    let lost = "select count(*) from postrider.session where end_reason = 'lost'";
    assert_eq!(fixture.count(lost).await, 0);
}
