//! Case B02: every subscriber's handler runs for its own copy of an event and for no other.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use postrider::{Delivery, Handle, NewEvent};

use crate::fixture::{Fixture, event_type};
use crate::gate::Gate;
use crate::support::{Seen, eager};

/// The pairs of event and subscription whose handler runs right now.
#[derive(Clone, Default)]
struct Pairs {
    running: Arc<Mutex<HashSet<(uuid::Uuid, String)>>>,
    /// How often one started while it was running.
    twice: Arc<AtomicUsize>,
}

/// A process with four subscribers that match everything. The handlers of the case take 700 ms;
/// here they take until the gate opens, so that all of them overlap.
async fn process(fixture: &Fixture, seen: &Seen, gate: &Gate, pairs: &Pairs) -> Handle {
    let mut builder = fixture.engine().declare(event_type("a.b"));
    for name in ["s1", "s2", "s3", "s4"] {
        let (gate, pairs) = (gate.clone(), pairs.clone());
        let handler = seen.then(move |delivery: Delivery| {
            let (gate, pairs) = (gate.clone(), pairs.clone());
            async move {
                let pair = (delivery.event.id, delivery.subscription.to_string());
                let fresh = pairs.running.lock().unwrap().insert(pair.clone());
                pairs.twice.fetch_add(usize::from(!fresh), Ordering::AcqRel);
                gate.pass().await;
                pairs.running.lock().unwrap().remove(&pair);
            }
        });
        builder = builder.subscribe(eager(name, &["**"], 5), handler);
    }
    builder.start().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn b02_each_subscriber_handles_each_event_once_with_two_processes_and_never_twice_at_once() {
    for events in [1, 10] {
        let fixture = Fixture::new().await;
        let (seen, gate, pairs) = (Seen::default(), Gate::closed(), Pairs::default());
        let one = process(&fixture, &seen, &gate, &pairs).await;
        let two = process(&fixture, &seen, &gate, &pairs).await;
        let mut writer = fixture.db.client().await;
        for n in 0..events {
            let event = NewEvent::new("a.b", format!("e{n}")).unwrap();
            postrider::Recorder::default().record(&mut writer, &event).await.unwrap();
        }
        seen.wait_for(4 * events).await;
        gate.open();
        fixture.wait_finished().await;
        one.shutdown().await;
        two.shutdown().await;
        // Raw runs, counted before any consumer could have left one out.
        assert_eq!(seen.runs().len(), 4 * events);
        let distinct: HashSet<_> =
            seen.runs().into_iter().map(|run| (run.subscription, run.subject)).collect();
        assert_eq!(distinct.len(), 4 * events);
        assert_eq!(pairs.twice.load(Ordering::Acquire), 0, "no pair ran twice at the same time");
        assert!(seen.runs().iter().all(|run| run.attempt == 1));
    }
}
