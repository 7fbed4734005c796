//! The relay's floor and what it must never pass.

use crate::fixture::Fixture;
use postrider::{Schema, for_tests};

#[tokio::test(flavor = "multi_thread")]
async fn the_floor_does_not_count_a_number_that_was_never_drawn() {
    let mut fixture = Fixture::new().await;
    fixture.declare(&["a.b"]).await;
    let statements = for_tests::statements(&Schema::default());
    let (_, probe, _) = statements.into_iter().find(|(name, ..)| *name == "floor_probe").unwrap();
    assert_eq!(fixture.count(&probe).await, 0, "before the first event");
    fixture.record("a.b", "s").await;
    let newest = fixture.count(&probe).await;
    assert_eq!(newest, fixture.count("select max(seq) from postrider.owed").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_floor_waits_for_the_newest_transaction_too() {
    let fixture = Fixture::new().await;
    fixture.declare(&["a.b"]).await;
    let statements = for_tests::statements(&Schema::default());
    let (_, look, _) = statements.into_iter().find(|(name, ..)| *name == "floor_settle").unwrap();
    let watcher = fixture.db.client().await;
    // No transaction ends after the one that records, unless others use the server: its id is the
    // last one that was handed out.
    for _ in 0..20 {
        fixture.client.batch_execute("begin; select postrider.record('a.b', 's')").await.unwrap();
        let row = watcher.query_one(&look, &[&0_i64]).await.unwrap();
        let (next, oldest): (i64, i64) = (row.get("next_id"), row.get("oldest_id"));
        let writer = fixture.count("select pg_current_xact_id()::text::bigint").await;
        assert!(oldest <= writer, "{writer} is open, and {oldest} is said to be the oldest");
        assert!(writer < next, "{writer} is open, and {next} is said to come next");
        assert!(next - writer < 100_000, "{next} is far from {writer}");
        fixture.client.batch_execute("commit").await.unwrap();
    }
}
