//! B34: processes that start at the same moment on an empty database, half of them through a pooler
//! in transaction mode.

use postrider::{Database, Schema, migrate};
use postrider_testkit::{Pooler, TestDatabase};

/// Enough to meet in each step; twenty take two minutes on a small machine.
const ROUNDS: usize = 5;

#[tokio::test(flavor = "multi_thread")]
async fn b34_eight_that_migrate_at_once_half_of_them_through_a_pooler_all_succeed() {
    for _ in 0..ROUNDS {
        let db = TestDatabase::create().await;
        let pooler = Pooler::start(&db.url(), 2, 0).await;
        let tasks: Vec<_> = (0..8)
            .map(|n| if n % 2 == 0 { db.url() } else { pooler.url_through(&db.url()) })
            .map(|url| {
                tokio::spawn(async move {
                    let mut client = Database::new(&url).unwrap().connect().await.unwrap();
                    let applied = migrate::apply(&mut client, &Schema::default()).await.unwrap();
                    migrate::require_current(&client, &Schema::default()).await.unwrap();
                    applied
                })
            })
            .collect();
        let mut applied = Vec::new();
        for task in tasks {
            applied.extend(task.await.unwrap());
        }
        let mut once = applied.clone();
        once.sort();
        once.dedup();
        assert_eq!(once.len(), applied.len(), "{applied:?}");
        drop(pooler);
        db.drop().await;
    }
}
