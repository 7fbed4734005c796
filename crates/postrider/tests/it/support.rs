//! What tests of relay, jobs and leases share: handlers that remember, and waits on counts.

use std::future::Future;
use std::sync::{Arc, Mutex};

use postrider::{Delivery, Policy, Subscription};
use postrider_testkit::wait_until;

use crate::fixture::{Fixture, PATIENCE};

/// One run of a handler.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Run {
    pub(crate) subscription: String,
    pub(crate) subject: String,
    pub(crate) attempt: i32,
}

/// What handlers saw, in the order in which they ran.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen(Arc<Mutex<Vec<Run>>>);

impl Seen {
    /// Remembers a delivery.
    pub(crate) fn note(&self, delivery: &Delivery) {
        self.0.lock().unwrap().push(Run {
            subscription: delivery.subscription.to_string(),
            subject: delivery.event.subject.clone(),
            attempt: delivery.attempt,
        });
    }

    /// A handler that only remembers.
    pub(crate) fn handler(&self) -> impl Fn(Delivery) -> std::future::Ready<()> + use<> {
        let seen = self.clone();
        move |delivery| {
            seen.note(&delivery);
            std::future::ready(())
        }
    }

    /// A handler that remembers and then does something else.
    pub(crate) fn then<F, Fut>(&self, next: F) -> impl Fn(Delivery) -> Fut + use<F, Fut>
    where
        F: Fn(Delivery) -> Fut,
        Fut: Future,
    {
        let seen = self.clone();
        move |delivery| {
            seen.note(&delivery);
            next(delivery)
        }
    }

    /// All runs so far.
    pub(crate) fn runs(&self) -> Vec<Run> {
        self.0.lock().unwrap().clone()
    }

    /// The subjects that a subscription saw, sorted.
    pub(crate) fn subjects(&self, subscription: &str) -> Vec<String> {
        let mut subjects: Vec<String> = self
            .runs()
            .into_iter()
            .filter(|run| run.subscription == subscription)
            .map(|run| run.subject)
            .collect();
        subjects.sort();
        subjects
    }

    /// Waits until handlers have run `count` times.
    #[track_caller]
    pub(crate) fn wait_for(&self, count: usize) -> impl Future<Output = ()> {
        let seen = self.clone();
        wait_until("handlers have run as often as they should", PATIENCE, async move || {
            let found = seen.runs().len();
            (found >= count).then_some(()).ok_or(format!("{found} of {count} runs"))
        })
    }
}

impl Fixture {
    /// Waits until the only value of `sql` is `expected`.
    #[track_caller]
    pub(crate) fn wait_count(&self, sql: &str, expected: i64) -> impl Future<Output = ()> {
        wait_until(sql, PATIENCE, async move || {
            let found = self.count(sql).await;
            (found == expected).then_some(()).ok_or(format!("{found}, not {expected}"))
        })
    }

    /// Waits until nothing is owed.
    #[track_caller]
    pub(crate) fn wait_fanned_out(&self) -> impl Future<Output = ()> {
        self.wait_count("select count(*) from postrider.owed", 0)
    }

    /// Waits until every job is finished.
    #[track_caller]
    pub(crate) fn wait_finished(&self) -> impl Future<Output = ()> {
        let sql = "select (select count(*) from postrider.owed) + count(*) from postrider.job";
        self.wait_count(sql, 0)
    }

    /// Records `count` events with subjects `{prefix}1` and so on, in one transaction.
    pub(crate) async fn record_many(&self, event_type: &str, prefix: &str, count: i32) {
        let sql = "select count(postrider.record($1, $2 || n)) from generate_series(1, $3) n";
        self.client.execute(sql, &[&event_type, &prefix, &count]).await.unwrap();
    }

    /// Runs statements that must succeed.
    pub(crate) async fn sql(&self, statements: &str) {
        self.client.batch_execute(statements).await.unwrap();
    }

    /// A subscription that nobody handles: its jobs stay where they are and can be looked at.
    pub(crate) async fn subscription(&self, name: &str, types: &[&str]) -> i32 {
        let sql = "with new as (
              insert into postrider.subscription
                (name, globs, declared_globs, backoff, created_routing_version)
              values ($1, $2, $2, '{\"exponential\":{\"base_ms\":2000,\"max_ms\":60000}}',
                (select version + 1 from postrider.routing))
              returning id),
            routes as (
              insert into postrider.route select t, new.id from unnest($2) t, new),
            bump as (update postrider.routing set version = version + 1)
            select id from new";
        self.client.query_one(sql, &[&name, &types]).await.unwrap().get(0)
    }
}

/// A subscription with a policy that retries almost at once.
pub(crate) fn eager(name: &str, globs: &[&str], max_attempts: i32) -> Subscription {
    let backoff = postrider::Backoff::list([std::time::Duration::from_millis(1)]).unwrap();
    let policy = Policy { max_attempts, backoff, ..Policy::default() };
    Subscription::new(name, globs.iter().copied()).unwrap().policy(policy)
}
