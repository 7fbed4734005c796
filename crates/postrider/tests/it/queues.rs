//! Which job a worker runs next: queues, limits, priorities, pauses, and what it registered.

use std::time::Duration;

use postrider::{Priority, Subscription};

use crate::fixture::{Fixture, event_type};
use crate::gate::Gate;
use crate::support::{Seen, eager};

fn in_queue(name: &str, glob: &str, queue: &str) -> Subscription {
    let mut subscription = eager(name, &[glob], 3);
    subscription.policy.queue = queue.to_owned();
    subscription
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_never_runs_more_jobs_of_a_queue_at_once_than_its_limit() {
    let fixture = Fixture::new().await;
    let (seen, gate) = (Seen::default(), Gate::closed());
    let engine = fixture
        .engine()
        .queue("narrow", 3)
        .declare(event_type("a.b"))
        .subscribe(in_queue("s1", "a.b", "narrow"), seen.then(gate.handler()))
        .subscribe(in_queue("s2", "a.b", "narrow"), seen.then(gate.handler()))
        .start()
        .await
        .unwrap();
    fixture.record_many("a.b", "x", 20).await;
    seen.wait_for(3).await;
    // One out, one in: the limit holds while jobs come and go.
    for done in 1..=10 {
        gate.let_pass(1);
        seen.wait_for(3 + done).await;
        let running = "select count(*) from postrider.job where state = 'running'";
        assert!(fixture.count(running).await <= 3);
    }
    gate.open();
    fixture.wait_finished().await;
    engine.shutdown().await;
    assert_eq!(seen.runs().len(), 40);
    assert_eq!(gate.most(), 3, "the limit was reached and never passed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_whose_handlers_hang_slows_no_other() {
    let fixture = Fixture::new().await;
    let (seen, gate) = (Seen::default(), Gate::closed());
    let engine = fixture
        .engine()
        .queue("stuck", 2)
        .queue("free", 2)
        .declare(event_type("a.b"))
        .subscribe(in_queue("stuck", "a.b", "stuck"), gate.handler())
        .subscribe(in_queue("free", "a.b", "free"), seen.handler())
        .start()
        .await
        .unwrap();
    fixture.record_many("a.b", "x", 50).await;
    seen.wait_for(50).await;
    assert_eq!(gate.most(), 2);
    gate.open();
    fixture.wait_finished().await;
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_urgent_overtakes_what_waits_in_the_same_queue() {
    let mut fixture = Fixture::new().await;
    let (seen, gate) = (Seen::default(), Gate::closed());
    let mut builder = fixture.engine().queue("default", 1);
    for (name, priority) in
        [("bulk", Priority::Bulk), ("normal", Priority::Normal), ("high", Priority::High)]
    {
        let mut subscription = eager(name, &[&format!("{name}.b")], 3);
        subscription.policy.priority = priority;
        builder = builder
            .declare(event_type(&format!("{name}.b")))
            .subscribe(subscription, seen.then(gate.handler()));
    }
    let engine = builder.start().await.unwrap();
    fixture.record("normal.b", "first").await;
    seen.wait_for(1).await;
    for name in ["bulk.b", "normal.b", "high.b"] {
        fixture.record_many(name, "x", 2).await;
        fixture.wait_fanned_out().await;
    }
    gate.open();
    fixture.wait_finished().await;
    engine.shutdown().await;
    let order: Vec<String> = seen.runs().into_iter().map(|run| run.subscription).collect();
    assert_eq!(order, ["normal", "high", "high", "normal", "normal", "bulk", "bulk"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_claims_only_what_it_registered_a_handler_for() {
    let mut fixture = Fixture::new().await;
    let (first, second) = (Seen::default(), Seen::default());
    let one = fixture
        .engine()
        .declare(event_type("a.b"))
        .subscribe(eager("one", &["a.b"], 3), first.handler())
        .start()
        .await
        .unwrap();
    let two = fixture
        .engine()
        .subscribe(eager("two", &["a.b"], 3), second.handler())
        .start()
        .await
        .unwrap();
    fixture.record_many("a.b", "x", 10).await;
    fixture.wait_finished().await;
    two.shutdown().await;
    // With nobody left who handles `two`, its jobs wait.
    fixture.record("a.b", "later").await;
    first.wait_for(11).await;
    fixture.wait_count("select count(*) from postrider.job where state = 'pending'", 1).await;
    one.shutdown().await;
    assert!(first.runs().iter().all(|run| run.subscription == "one"));
    assert!(second.runs().iter().all(|run| run.subscription == "two"));
    assert_eq!((first.runs().len(), second.runs().len()), (11, 10));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_subscription_keeps_its_jobs_and_gets_them_when_it_is_resumed() {
    let mut fixture = Fixture::new().await;
    let seen = Seen::default();
    let engine = fixture
        .engine()
        .declare(event_type("a.b"))
        .subscribe(eager("paused", &["a.b"], 3), seen.handler())
        .subscribe(eager("other", &["a.b"], 3), seen.handler())
        .start()
        .await
        .unwrap();
    let pause = "update postrider.subscription set paused_at = now() where name = 'paused'";
    fixture.sql(pause).await;
    for subject in ["x", "y"] {
        fixture.record("a.b", subject).await;
    }
    // Later jobs of the other subscription are done, so these were passed over.
    seen.wait_for(2).await;
    fixture.wait_count("select count(*) from postrider.job where state = 'pending'", 2).await;
    assert!(seen.subjects("paused").is_empty());
    fixture.sql("update postrider.subscription set paused_at = null").await;
    fixture.wait_finished().await;
    engine.shutdown().await;
    assert_eq!(seen.subjects("paused"), ["x", "y"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_jobs_of_a_deleted_subscription_are_cancelled_the_running_ones_too() {
    let fixture = Fixture::new().await;
    let (seen, gate) = (Seen::default(), Gate::closed());
    let engine = fixture
        .engine()
        .lease(Duration::from_secs(3))
        .queue("default", 1)
        .declare(event_type("a.b"))
        .subscribe(eager("s", &["a.b"], 3), seen.then(gate.handler()))
        .start()
        .await
        .unwrap();
    fixture.record_many("a.b", "x", 3).await;
    seen.wait_for(1).await;
    fixture.wait_fanned_out().await;
    fixture.sql("update postrider.subscription set deleted_at = now()").await;
    // Its housekeeping runs when an engine starts.
    let other = fixture.engine().without_relay().start().await.unwrap();
    fixture.wait_finished().await;
    other.shutdown().await;
    engine.shutdown().await;
    assert_eq!(seen.runs().len(), 1);
    let states = "select distinct state::text from postrider.job_history";
    assert_eq!(fixture.texts(states).await, ["cancelled"]);
    let why = "select count(*) from postrider.job_history
               where last_error = 'the subscription was deleted'";
    assert_eq!(fixture.count(why).await, 2, "those that waited say why");
    let log = "select outcome from postrider.job_attempt";
    assert_eq!(fixture.texts(log).await, ["cancelled"], "the one that ran has its attempt kept");
}
