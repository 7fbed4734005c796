//! Acting on many jobs, with the count as a preview.

use std::time::Duration;

use postrider::admin::{Admin, BulkAction, JobSelection, JobView};
use postrider::{ErrorKind, Schema};
use time::OffsetDateTime;

use crate::fixture::Fixture;

/// 2,500 jobs that wait for tomorrow, 2,500 that were discarded, of two tenants; and ten others.
async fn filled() -> (Fixture, Admin) {
    let fixture = Fixture::new().await;
    fixture.kinds(&["mail", "other"]).await;
    fixture
        .sql(
            "insert into postrider.job (due_at, created_at, subscription_id, origin, priority,
               tenant, arguments, attempt, last_error)
             select now() + interval '1 day', now() - n * interval '1 s', 1, 'enqueue', 2,
               't' || n % 2, '{}', 1, 'Timeout of gateway ' || n % 5
             from generate_series(1, 2500) n;
             insert into postrider.job_history (id, finished_at, created_at, subscription_id,
               attempt,
               extra_attempts, state, origin, priority, tenant, last_error, arguments)
             select nextval('postrider.job_id_seq'), now(), now(), 1, 20, 0, 'discarded', 'enqueue',
               2, 't' || n % 2, 'boom', '{\"n\": 1}' from generate_series(1, 2500) n;
             select postrider.enqueue('other') from generate_series(1, 10)",
        )
        .await;
    let admin = Admin::connect(&fixture.database(), &Schema::default()).await.unwrap();
    (fixture, admin)
}

fn mail() -> JobSelection {
    JobSelection { subscription: Some("mail".into()), ..JobSelection::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_preview_counts_what_the_action_then_changes_and_changes_nothing() {
    let (fixture, admin) = filled().await;
    let of_tenant = JobSelection { tenant: Some("t1".into()), ..mail() };
    let of_error = JobSelection { error: Some("GATEWAY 3".into()), ..mail() };
    let of_age = JobSelection {
        created_before: Some(OffsetDateTime::now_utc() - Duration::from_secs(2000)),
        states: vec![JobView::Retryable],
        ..mail()
    };
    let everything = "select md5(string_agg(j::text, ' ' order by id)) from postrider.job j";
    let before = fixture.texts(everything).await;
    for (action, selection, least, most) in [
        (BulkAction::Retry, &of_tenant, 2500, 2500),
        (BulkAction::Cancel, &of_error, 500, 500),
        (BulkAction::Cancel, &of_age, 400, 501),
        (BulkAction::Purge, &mail(), 2500, 2500),
        (BulkAction::Cancel, &JobSelection::default(), 2510, 2510),
    ] {
        let counted = admin.preview_jobs(action, selection, |_| {}).await.unwrap();
        assert!((least..=most).contains(&counted), "{action:?} {selection:?}: {counted}");
    }
    assert_eq!(fixture.texts(everything).await, before);
    let mut steps = Vec::new();
    let changed = admin.act_on_jobs(BulkAction::Cancel, &of_error, |step| steps.push(step)).await;
    assert_eq!(changed.unwrap(), 500);
    assert!(
        steps.len() >= 3 && steps.windows(2).all(|two| two[0].jobs <= two[1].jobs),
        "{steps:?}"
    );
    let cancelled = "select count(*) from postrider.job_history where state = 'cancelled'
        and last_error = 'Timeout of gateway 3' and arguments = '{}'";
    assert_eq!(fixture.count(cancelled).await, 500);
}

#[tokio::test(flavor = "multi_thread")]
async fn retrying_brings_discarded_jobs_back_and_makes_waiting_ones_due() {
    let (fixture, admin) = filled().await;
    assert_eq!(admin.act_on_jobs(BulkAction::Retry, &mail(), |_| {}).await.unwrap(), 5000);
    let due = "select count(*) from postrider.job where due_at <= clock_timestamp()
        and subscription_id = 1";
    assert_eq!(fixture.count(due).await, 5000);
    let again = "select count(*) from postrider.job where arguments = '{\"n\": 1}'
        and extra_attempts = 1";
    assert_eq!(fixture.count(again).await, 2500, "each has an attempt left");
    assert_eq!(admin.act_on_jobs(BulkAction::Retry, &mail(), |_| {}).await.unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_are_moved_to_another_time_and_finished_ones_are_forgotten() {
    let (fixture, admin) = filled().await;
    let run_at = OffsetDateTime::now_utc() + Duration::from_secs(7 * 24 * 3600);
    let moved = admin.act_on_jobs(BulkAction::Move { run_at }, &mail(), |_| {}).await.unwrap();
    assert_eq!(moved, 2500);
    let later = "select count(*) from postrider.job where due_at > now() + interval '6 days'";
    assert_eq!(fixture.count(later).await, 2500);
    assert_eq!(admin.act_on_jobs(BulkAction::Purge, &mail(), |_| {}).await.unwrap(), 2500);
    assert_eq!(fixture.count("select count(*) from postrider.job_history").await, 0);
    let odd = JobSelection { states: vec![JobView::Running], ..mail() };
    let error = admin.preview_jobs(BulkAction::Purge, &odd, |_| {}).await.unwrap_err();
    assert_eq!((error.kind(), error.field()), (ErrorKind::Invalid, Some("state")));
}
