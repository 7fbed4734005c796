//! What the rescue does with the jobs of dead sessions, by the hundred.

use postrider_testkit::wait_until;

use crate::fixture::{Fixture, PATIENCE};
use crate::maintenance::keeper;
use crate::plans_fill::FILL;

#[tokio::test(flavor = "multi_thread")]
async fn jobs_of_dead_sessions_are_pending_again_discarded_or_cancelled_each_once() {
    let fixture = Fixture::new().await;
    fixture.client.batch_execute(FILL).await.unwrap();
    // A thousand jobs run under sessions that are over or late. Some are at their last attempt, and
    // some were asked to stop; the subscription that is deleted is none of this test's business.
    let prepare = "
        update postrider.subscription set deleted_at = null;
        update postrider.job set attempt = 20 where id between 10 and 39;
        update postrider.job set cancel_requested_at = now() where id between 100 and 119;
        truncate postrider.job_attempt, postrider.job_history";
    fixture.client.batch_execute(prepare).await.unwrap();
    let pending = fixture.count("select count(*) from postrider.job where state = 'pending'").await;
    let engine = keeper(&fixture).await;
    wait_until("nothing runs under a dead session", PATIENCE, async || {
        engine.maintain().await.unwrap();
        let left = fixture.count("select count(*) from postrider.lease").await;
        (left == 0).then_some(()).ok_or(format!("{left} leases are left"))
    })
    .await;
    engine.shutdown().await;
    for (sql, expected) in [
        ("select count(*) from postrider.job where state = 'running'", 0),
        ("select count(*) from postrider.job where state = 'pending'", pending + 950),
        ("select count(*) from postrider.job where last_error like '%died with its process%'", 950),
        ("select count(*) from postrider.job_history where state = 'discarded'", 30),
        ("select count(*) from postrider.job_history where state = 'cancelled'", 20),
        ("select count(*) from postrider.job_attempt where outcome = 'lost'", 1000),
        ("select count(distinct job_id) from postrider.job_attempt", 1000),
        // They come back apart, so that one which ends its process takes few others with it.
        (
            "select (count(distinct due_at) > 500)::integer::bigint from postrider.job
             where last_error like '%died with its process%'",
            1,
        ),
    ] {
        assert_eq!(fixture.count(sql).await, expected, "{sql}");
    }
}
