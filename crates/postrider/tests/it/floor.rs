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
