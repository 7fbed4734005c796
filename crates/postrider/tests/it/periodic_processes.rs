//! Four processes with clocks apart serve one schedule: each tick gets one job.

use std::time::Duration;

use postrider::{CatchUp, Database, Job, Periodic};
use serde_json::Value;

use crate::enqueue::kind;
use crate::fixture::Fixture;
use crate::process::Process;

/// The part of one of the processes: enqueues the ticks of a schedule and runs their jobs.
pub(crate) async fn ticks(database: Database) {
    let every_second = Periodic::new("second", "tick", "* * * * * *").unwrap();
    let handled = async |_: Job<Value>| ();
    let _engine = postrider::Engine::builder(database)
        .poll_interval(Duration::from_millis(100))
        .handle(kind("tick"), handled)
        .periodic(every_second.catch_up(CatchUp::All, 1000))
        .start()
        .await
        .unwrap();
    std::future::pending::<()>().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn four_processes_with_clocks_apart_and_one_killed_enqueue_each_tick_once() {
    let fixture = Fixture::new().await;
    let shifts = ["+0s", "+3s", "-7h", "+400d"];
    let mut processes: Vec<Process> =
        shifts.iter().map(|shift| Process::start_with_clock(&fixture, "ticks", shift)).collect();
    fixture.wait_count("select count(*) from postrider.session where ended_at is null", 4).await;
    let served = "select least(count(*), 8) from postrider.periodic_tick";
    fixture.wait_count(&served.replace('8', "3"), 3).await;
    drop(processes.remove(0));
    fixture.wait_count(served, 8).await;
    drop(processes);
    let near = "select count(*) from postrider.periodic_tick
        where tick_at not between now() - interval '2 minutes' and now()";
    assert_eq!(fixture.count(near).await, 0, "the time is the database's");
    let gaps = "select count(*) from (
        select tick_at - lag(tick_at) over (order by tick_at) as gap from postrider.periodic_tick) x
        where gap <> interval '1 second'";
    assert_eq!(fixture.count(gaps).await, 0);
    let ticks = fixture.texts("select tick_at::text from postrider.periodic_tick order by 1").await;
    let jobs = "select tick_at::text from (
        select tick_at from postrider.job union all select tick_at from postrider.job_history) x
        order by 1";
    assert_eq!(fixture.texts(jobs).await, ticks, "one job for each tick");
}
