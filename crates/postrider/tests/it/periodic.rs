//! Periodic jobs: declared in versions, paused, run by hand, caught up, with results that are kept.

use std::time::Duration;

use postrider::admin::{Admin, PeriodicDeclared, PeriodicRun};
use postrider::{CatchUp, ErrorKind, Job, JobState, Periodic, Schema};
use serde_json::Value;
use time::OffsetDateTime;

use crate::enqueue::kind;
use crate::fixture::Fixture;

const HOUR: Duration = Duration::from_secs(3600);
const JOBS: &str =
    "select (select count(*) from postrider.job) + count(*) from postrider.job_history";

async fn admin(fixture: &Fixture) -> Admin {
    Admin::connect(&fixture.database(), &Schema::default()).await.unwrap()
}

fn hourly(kind: &str) -> Periodic {
    Periodic::new("hourly", kind, "0 * * * *").unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tick_gets_a_job_whose_handler_knows_the_tick_and_whose_result_is_kept() {
    let fixture = Fixture::new().await;
    let handler = async |job: Job<Value>| {
        assert_eq!(job.key.as_deref(), Some("hourly"));
        postrider::Outcome::done_with(&job.tick_at.unwrap().unix_timestamp()).unwrap()
    };
    let engine = fixture.engine().handle(kind("report"), handler).periodic(hourly("report"));
    let engine = engine.start().await.unwrap();
    let admin = admin(&fixture).await;
    let before = admin.periodic_job("hourly").await.unwrap().unwrap();
    let first = before.next_due_at.unwrap();
    assert_eq!((first.minute(), first.second(), before.last_job_id), (0, 0, None));
    engine.advance_clock(HOUR);
    engine.maintain().await.unwrap();
    fixture.wait_count("select count(*) from postrider.job_history", 1).await;
    engine.maintain().await.unwrap();
    let after = admin.periodic_job("hourly").await.unwrap().unwrap();
    assert_eq!((after.last_tick_at, after.last_state), (Some(first), Some(JobState::Completed)));
    assert_eq!(after.next_due_at, Some(first + HOUR));
    let output = "select output::text from postrider.job_history";
    assert_eq!(fixture.texts(output).await, [first.unix_timestamp().to_string()]);
    // What became of it is known when history is gone, and after a restart.
    fixture.sql("delete from postrider.job_history").await;
    engine.shutdown().await;
    let kept = admin.periodic_job("hourly").await.unwrap().unwrap();
    assert_eq!((kept.last_state, kept.last_job_id), (Some(JobState::Completed), after.last_job_id));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_declaration_is_overwritten_by_the_same_version_or_a_higher_one_and_keeps_its_next_tick()
{
    let fixture = Fixture::new().await;
    fixture.kinds(&["report"]).await;
    let admin = admin(&fixture).await;
    let declare = async |periodic: Periodic| admin.declare_periodic(&periodic).await.unwrap();
    assert_eq!(declare(hourly("report").version(2)).await, PeriodicDeclared::Declared);
    assert_eq!(declare(hourly("report").version(2)).await, PeriodicDeclared::Unchanged);
    assert_eq!(declare(hourly("report")).await, PeriodicDeclared::NewerStands(2));
    let due = "update postrider.periodic set next_due_at = '2020-01-01'";
    fixture.sql(due).await;
    let changed = hourly("report").version(2).arguments(&7).unwrap();
    assert_eq!(declare(changed).await, PeriodicDeclared::Declared);
    let kept = "select count(*) from postrider.periodic where next_due_at = '2020-01-01'";
    assert_eq!(fixture.count(kept).await, 1, "the schedule is the same, so its tick is owed");
    let moved = hourly("report").version(3).time_zone("Asia/Kolkata").unwrap();
    assert_eq!(declare(moved).await, PeriodicDeclared::Declared);
    assert_eq!(fixture.count(kept).await, 0);
    let next = admin.periodic_job("hourly").await.unwrap().unwrap().next_due_at.unwrap();
    assert_eq!(next.minute(), 30, "a full hour there is half past here");
    let error = admin.declare_periodic(&hourly("nobody").version(4)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UndeclaredKind);
    let never = Periodic::new("never", "report", "0 0 30 2 *").unwrap();
    let error = admin.declare_periodic(&never).await.unwrap_err();
    assert_eq!((error.kind(), error.field()), (ErrorKind::Invalid, Some("cron")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_one_has_no_ticks_can_be_run_by_hand_and_goes_on_with_the_next() {
    let fixture = Fixture::new().await;
    fixture.kinds(&["report"]).await;
    let (engine, admin) = (fixture.engine().start().await.unwrap(), admin(&fixture).await);
    admin.declare_periodic(&hourly("report").catch_up(CatchUp::All, 100)).await.unwrap();
    admin.pause_periodic("hourly").await.unwrap();
    fixture.sql("update postrider.periodic set next_due_at = now() - interval '5 hours'").await;
    engine.maintain().await.unwrap();
    assert_eq!(fixture.count(JOBS).await, 0);
    let PeriodicRun::Enqueued(id) = admin.run_periodic("hourly").await.unwrap() else { panic!() };
    let info = admin.periodic_job("hourly").await.unwrap().unwrap();
    assert_eq!((info.last_job_id, info.last_state), (Some(id), Some(JobState::Pending)));
    admin.resume_periodic("hourly").await.unwrap();
    let info = admin.periodic_job("hourly").await.unwrap().unwrap();
    assert!(info.next_due_at.unwrap() > OffsetDateTime::now_utc() && info.paused_at.is_none());
    engine.maintain().await.unwrap();
    assert_eq!(fixture.count(JOBS).await, 1, "ticks of the pause pass");
    admin.delete_periodic("hourly").await.unwrap();
    assert_eq!(fixture.count(JOBS).await, 1, "its jobs stay");
    assert_eq!(admin.run_periodic("hourly").await.unwrap(), PeriodicRun::NotFound);
    for error in [
        admin.pause_periodic("hourly").await.unwrap_err(),
        admin.resume_periodic("hourly").await.unwrap_err(),
        admin.delete_periodic("hourly").await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::NotFound);
    }
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn missed_ticks_are_caught_up_as_declared() {
    for (catch_up, most, jobs) in
        [(CatchUp::Once, 100, 1), (CatchUp::All, 100, 5), (CatchUp::All, 3, 3)]
    {
        let fixture = Fixture::new().await;
        fixture.kinds(&["report"]).await;
        let (engine, admin) = (fixture.engine().start().await.unwrap(), admin(&fixture).await);
        admin.declare_periodic(&hourly("report").catch_up(catch_up, most)).await.unwrap();
        let missed = "update postrider.periodic
            set next_due_at = date_trunc('hour', clock_timestamp()) - interval '4 hours'";
        fixture.sql(missed).await;
        fixture.wait_count(JOBS, jobs).await;
        engine.maintain().await.unwrap();
        assert_eq!(fixture.count(JOBS).await, jobs, "{catch_up:?}");
        engine.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_ticks_of_a_kind_that_was_deleted_pass_and_say_so() {
    let fixture = Fixture::new().await;
    fixture.kinds(&["report"]).await;
    let (engine, admin) = (fixture.engine().start().await.unwrap(), admin(&fixture).await);
    admin.declare_periodic(&hourly("report")).await.unwrap();
    admin.delete_subscription("report").await.unwrap();
    engine.advance_clock(HOUR);
    engine.maintain().await.unwrap();
    let info = admin.periodic_job("hourly").await.unwrap().unwrap();
    assert_eq!(info.last_error.unwrap(), "the kind report is not declared, so its ticks pass");
    assert!(!info.kind_is_known && fixture.count(JOBS).await == 0);
    assert_eq!(admin.run_periodic("hourly").await.unwrap(), PeriodicRun::KindGone);
    engine.shutdown().await;
}
