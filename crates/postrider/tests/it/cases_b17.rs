//! B17: daily and quarter-hourly schedules through both change-over nights, two relays, a restart.

use std::time::Duration;

use postrider::{CatchUp, Handle, Job, Periodic};
use serde_json::Value;
use time::OffsetDateTime;
use time::macros::datetime;

use crate::enqueue::kind;
use crate::fixture::Fixture;

const STEP: Duration = Duration::from_secs(15 * 60);

async fn engine(fixture: &Fixture, name: &str) -> Handle {
    let handled = async |_: Job<Value>| ();
    let new = |name: &str, cron: &str| {
        let periodic = Periodic::new(name, "tick", cron).unwrap();
        let periodic = periodic.time_zone("America/New_York").unwrap();
        periodic.catch_up(CatchUp::All, 1000)
    };
    fixture
        .engine()
        .name(name)
        .handle(kind("tick"), handled)
        .periodic(new("gap", "30 2 * * *"))
        .periodic(new("overlap", "30 1 * * *"))
        .periodic(new("quarter", "*/15 * * * *"))
        .start()
        .await
        .unwrap()
}

/// Moves the clocks of both to a time.
fn set(engines: &[Handle; 2], clocks: &mut [OffsetDateTime; 2], to: OffsetDateTime) {
    for (engine, clock) in engines.iter().zip(clocks) {
        engine.advance_clock((to - *clock).try_into().unwrap());
        *clock = to;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b17_each_daily_schedule_fires_once_a_local_day_and_a_quarter_hourly_keeps_its_spacing() {
    for noon in [datetime!(2027-03-13 12:00 UTC), datetime!(2027-11-06 12:00 UTC)] {
        let fixture = Fixture::new().await;
        let mut engines = [engine(&fixture, "one").await, engine(&fixture, "two").await];
        let now = fixture.client.query_one("select clock_timestamp()", &[]).await.unwrap().get(0);
        let mut clocks: [OffsetDateTime; 2] = [now; 2];
        set(&engines, &mut clocks, noon);
        engines[0].enqueue_ticks().await.unwrap();
        fixture.sql("delete from postrider.periodic_tick").await;
        // Two days in steps of two hours, and of a quarter of an hour in the night of the change.
        let night = 60..=84;
        let mut restarted = false;
        for step in (1..=(2 * 24 * 4)).filter(|step| step % 8 == 0 || night.contains(step)) {
            set(&engines, &mut clocks, noon + STEP * step + Duration::from_secs(5));
            let (one, two) = tokio::join!(engines[0].enqueue_ticks(), engines[1].enqueue_ticks());
            one.and(two).unwrap();
            if night.contains(&step) && !std::mem::replace(&mut restarted, true) {
                let [stopped, other] = engines;
                stopped.shutdown().await;
                engines = [engine(&fixture, "three").await, other];
                let now = fixture.client.query_one("select clock_timestamp()", &[]).await;
                clocks[0] = now.unwrap().get(0);
            }
        }
        let days = "select string_agg((tick_at at time zone 'America/New_York')::date::text, ' '
              order by tick_at) from postrider.periodic_tick t join postrider.periodic p
              on p.id = t.periodic_id where name = ";
        let expected = match noon.month() {
            time::Month::March => "2027-03-14 2027-03-15",
            _ => "2027-11-07 2027-11-08",
        };
        for name in ["'gap'", "'overlap'"] {
            assert_eq!(fixture.texts(&format!("{days}{name}")).await, [expected], "{name}");
        }
        let uneven = "select count(*) from (
              select tick_at - lag(tick_at) over (order by tick_at) as gap
              from postrider.periodic_tick t join postrider.periodic p on p.id = t.periodic_id
              where name = 'quarter') x where gap <> interval '15 minutes'";
        assert_eq!(fixture.count(uneven).await, 0);
        let quarters = "select count(*) from postrider.periodic_tick t
            join postrider.periodic p on p.id = t.periodic_id where name = 'quarter'";
        assert_eq!(fixture.count(quarters).await, 2 * 24 * 4);
        let doubled = "select count(*) - count(distinct (key, tick_at)) from (
            select key, tick_at from postrider.job where tick_at > '2027-01-01' union all
            select key, tick_at from postrider.job_history where tick_at > '2027-01-01') x";
        assert_eq!(fixture.count(doubled).await, 0);
        for engine in engines {
            engine.shutdown().await;
        }
    }
}
