//! The path from a commit to a handler.

use std::sync::{Arc, Mutex};

use postrider::{Delivery, Subscription};
use postrider_testkit::wait_until;

use crate::fixture::{Fixture, PATIENCE, event_type};

#[tokio::test(flavor = "multi_thread")]
async fn an_event_reaches_every_subscriber_once_and_its_job_is_kept_as_completed() {
    let mut fixture = Fixture::new().await;
    let seen: Arc<Mutex<Vec<(String, String)>>> = Arc::default();
    let handler = |seen: &Arc<Mutex<Vec<(String, String)>>>| {
        let seen = Arc::clone(seen);
        move |delivery: Delivery| {
            let seen = Arc::clone(&seen);
            async move {
                let what = (delivery.subscription.to_string(), delivery.event.subject.clone());
                seen.lock().unwrap().push(what);
            }
        }
    };
    let engine = fixture
        .engine()
        .declare(event_type("order.placed"))
        .subscribe(Subscription::new("a", ["order.*"]).unwrap(), handler(&seen))
        .subscribe(Subscription::new("b", ["**", "order.placed"]).unwrap(), handler(&seen))
        .start()
        .await
        .unwrap();
    fixture.record("order.placed", "order:1").await;
    wait_until("two handlers have run", PATIENCE, async || {
        let found = seen.lock().unwrap().len();
        (found == 2).then_some(()).ok_or(format!("{found} have"))
    })
    .await;
    wait_until("both jobs are completed", PATIENCE, async || {
        let sql = "select count(*) from postrider.job_history where state = 'completed'";
        let found = fixture.count(sql).await;
        (found == 2).then_some(()).ok_or(format!("{found} are"))
    })
    .await;
    engine.shutdown().await;
    assert_eq!(fixture.count("select count(*) from postrider.job").await, 0);
    assert_eq!(fixture.count("select count(*) from postrider.lease").await, 0);
    assert_eq!(fixture.count("select count(*) from postrider.fanout").await, 1);
    let mut seen = seen.lock().unwrap().clone();
    seen.sort();
    assert_eq!(seen, [("a".into(), "order:1".into()), ("b".into(), "order:1".into())]);
}
