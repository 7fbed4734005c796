//! A handler that settles its job in its own transaction: effect and settle are one.

use std::sync::Arc;

use postrider::{Delivery, ErrorKind, HandlerError, Subscription};

use crate::fixture::{Fixture, event_type};
use crate::gate::Gate;
use crate::leases::{STATES, steal};
use crate::support::{Seen, eager};

#[tokio::test(flavor = "multi_thread")]
async fn completing_a_job_that_was_taken_away_raises_at_every_isolation_level_and_cannot_commit() {
    for level in ["read committed", "repeatable read", "serializable"] {
        let mut fixture = Fixture::new().await;
        fixture.sql("create table ledger (subject text)").await;
        let (seen, gate) = (Seen::default(), Gate::closed());
        let (waits, url) = (gate.clone(), fixture.db.url());
        let result: Arc<std::sync::Mutex<Option<(ErrorKind, u64)>>> = Arc::default();
        let told = Arc::clone(&result);
        let handler = seen.then(move |delivery: Delivery| {
            let (gate, url, told) = (waits.clone(), url.clone(), Arc::clone(&told));
            async move {
                let mut client = postrider::Database::new(&url)?.connect().await?;
                let mut transaction = client.transaction().await?;
                let set = format!("set transaction isolation level {level}");
                transaction.batch_execute(&set).await?;
                let insert = "insert into ledger values ($1)";
                transaction.execute(insert, &[&delivery.event.subject]).await?;
                gate.pass().await;
                let refused = delivery.complete(&mut transaction).await.expect_err("it is stale");
                // A handler that ignores the error: its commit is a rollback.
                let _ = transaction.commit().await;
                let rows = client.query("select from ledger", &[]).await?.len() as u64;
                *told.lock().unwrap() = Some((refused.kind(), rows));
                Ok::<(), HandlerError>(())
            }
        });
        let engine = fixture
            .engine()
            .declare(event_type("a.b"))
            .subscribe(Subscription::new("s", ["a.b"]).unwrap(), handler)
            .start()
            .await
            .unwrap();
        fixture.record("a.b", "x").await;
        seen.wait_for(1).await;
        let inside = "select count(*) from pg_stat_activity
                      where datname = current_database() and query like 'insert into ledger%'";
        fixture.wait_count(inside, 1).await;
        steal(&fixture).await;
        gate.open();
        engine.shutdown().await;
        let (kind, rows) = result.lock().unwrap().expect("the handler has run");
        // Where the snapshot is older than the theft, PostgreSQL itself refuses (40001).
        let expected = match level {
            "read committed" => ErrorKind::Stale,
            _ => ErrorKind::Database,
        };
        assert_eq!((kind, rows), (expected, 0), "{level}");
        assert_eq!(fixture.texts(STATES).await, ["running 2"], "{level}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn effect_and_settle_are_one_in_the_handlers_own_transaction_at_every_isolation_level() {
    for level in ["read committed", "repeatable read", "serializable"] {
        let mut fixture = Fixture::new().await;
        fixture.sql("create table ledger (subject text)").await;
        let (seen, url) = (Seen::default(), fixture.db.url());
        let handler = seen.then(move |delivery: Delivery| {
            let url = url.clone();
            async move {
                let mut client = postrider::Database::new(&url)?.connect().await?;
                let mut transaction = client.transaction().await?;
                let set = format!("set transaction isolation level {level}");
                transaction.batch_execute(&set).await?;
                let insert = "insert into ledger values ($1)";
                transaction.execute(insert, &[&delivery.event.subject]).await?;
                let output = serde_json::value::to_raw_value(&delivery.attempt)?;
                delivery.complete_with(&mut transaction, Some(&output)).await?;
                if delivery.attempt == 1 {
                    // Effect and settle are gone together; the outcome below is not believed.
                    transaction.rollback().await?;
                } else {
                    transaction.commit().await?;
                }
                Ok::<(), HandlerError>(())
            }
        });
        let engine = fixture
            .engine()
            .declare(event_type("a.b"))
            .subscribe(eager("s", &["a.b"], 5), handler)
            .start()
            .await
            .unwrap();
        fixture.record("a.b", "x").await;
        fixture.wait_finished().await;
        engine.shutdown().await;
        assert_eq!(seen.runs().len(), 2, "{level}");
        assert_eq!(fixture.count("select count(*) from ledger").await, 1, "{level}");
        let output = "select output::text from postrider.job_history where state = 'completed'";
        assert_eq!(fixture.texts(output).await, ["2"], "{level}");
        let log = "select outcome || ': ' || error from postrider.job_attempt";
        let expected = "retry: the handler's transaction did not commit";
        assert_eq!(fixture.texts(log).await, [expected], "{level}");
    }
}
