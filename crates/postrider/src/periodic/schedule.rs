//! When a schedule ticks. Pure: the time comes from outside.
//!
//! How it fails: [`Invalid`] for text that cannot be read; a schedule without a further tick has
//! none. Invariants: ticks grow; of a schedule with one minute and one hour each local day has one.

use std::collections::VecDeque;

use croner::Cron;
use croner::parser::CronParser;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use postrider_core::Invalid;
use time::{Duration, OffsetDateTime};

use super::CatchUp;

/// A tick that is later than this was missed.
const LATE: Duration = Duration::minutes(1);
/// How far back missed ticks are looked for, step by step, so that a frequent schedule that was not
/// served for a year need not be walked through all of it.
const WINDOWS: [Duration; 4] =
    [Duration::hours(1), Duration::days(1), Duration::days(32), Duration::days(400)];

/// A cron expression in a time zone.
#[derive(Debug)]
pub(crate) struct Schedule {
    cron: Cron,
    zone: TimeZone,
}

/// What is to be done about a schedule that is due.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// The ticks that get a job, in order.
    pub(crate) ticks: Vec<OffsetDateTime>,
    /// The tick after them; `None` when there is none.
    pub(crate) next: Option<OffsetDateTime>,
}

impl Schedule {
    /// Reads an expression and the IANA name of a time zone.
    pub(crate) fn parse(cron: &str, zone: &str) -> Result<Self, Invalid> {
        if cron.len() > 255 {
            return Err(Invalid::new("cron", "is over 255 bytes long"));
        }
        let parsed = CronParser::new().parse(cron).map_err(|error| {
            Invalid::new(
                "cron",
                format!("`{cron}` is no cron expression such as `30 2 * * *`: {error}"),
            )
        })?;
        let zone = TimeZone::get(zone).map_err(|_| {
            let problem = format!("`{zone}` is no time zone such as Europe/Berlin or UTC");
            Invalid::new("time_zone", problem)
        })?;
        Ok(Self { cron: parsed, zone })
    }

    /// The first tick after `at`.
    pub(crate) fn next_after(&self, at: OffsetDateTime) -> Option<OffsetDateTime> {
        let next = self.cron.find_next_occurrence(&self.local(at)?, false).ok()?;
        OffsetDateTime::from_unix_timestamp_nanos(next.timestamp().as_nanosecond()).ok()
    }

    /// Which ticks get a job at `now`, of a schedule whose next tick was to be `due`, and the tick
    /// after them.
    pub(crate) fn plan(
        &self,
        due: OffsetDateTime,
        now: OffsetDateTime,
        catch_up: CatchUp,
        most: usize,
    ) -> Plan {
        let most = if catch_up == CatchUp::All { most.max(1) } else { 1 };
        let mut ticks: Vec<OffsetDateTime> = self.latest(due, now, most).into();
        if catch_up == CatchUp::Skip {
            ticks.retain(|tick| now - *tick <= LATE);
        }
        Plan { ticks, next: self.next_after(now) }
    }

    /// The latest ticks up to `now`, at most `most` of them, of which `due` is the first there was.
    fn latest(
        &self,
        due: OffsetDateTime,
        now: OffsetDateTime,
        most: usize,
    ) -> VecDeque<OffsetDateTime> {
        for window in WINDOWS {
            let from = now - window;
            if from <= due {
                break;
            }
            let found = self.last_of(self.next_after(from), now, most);
            if found.len() >= most {
                return found;
            }
        }
        self.last_of(Some(due), now, most)
    }

    /// The last `most` ticks from `first` on that are not after `now`.
    fn last_of(
        &self,
        first: Option<OffsetDateTime>,
        now: OffsetDateTime,
        most: usize,
    ) -> VecDeque<OffsetDateTime> {
        let mut found = VecDeque::new();
        let mut tick = first;
        while let Some(at) = tick.filter(|at| *at <= now) {
            if found.len() == most {
                found.pop_front();
            }
            found.push_back(at);
            tick = self.next_after(at);
        }
        found
    }

    fn local(&self, at: OffsetDateTime) -> Option<Zoned> {
        let timestamp = Timestamp::from_nanosecond(at.unix_timestamp_nanos()).ok()?;
        Some(timestamp.to_zoned(self.zone.clone()))
    }
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;

    fn schedule(cron: &str, zone: &str) -> Schedule {
        Schedule::parse(cron, zone).expect("it can be read")
    }

    /// The ticks after `from` and up to `to`.
    fn ticks(
        cron: &str,
        zone: &str,
        from: OffsetDateTime,
        to: OffsetDateTime,
    ) -> Vec<OffsetDateTime> {
        let schedule = schedule(cron, zone);
        schedule.last_of(schedule.next_after(from), to, usize::MAX >> 8).into()
    }

    #[test]
    fn what_cannot_be_read_is_refused_by_the_field() {
        for (cron, zone, field) in [
            ("", "UTC", "cron"),
            ("61 * * * *", "UTC", "cron"),
            ("* * * *", "UTC", "cron"),
            ("* * * * *", "Mars/Olympus", "time_zone"),
        ] {
            assert_eq!(Schedule::parse(cron, zone).expect_err(cron).field(), field);
        }
    }

    #[test]
    fn a_daily_time_that_is_skipped_in_spring_fires_at_the_end_of_the_gap_and_once() {
        // New York skips 02:00 to 03:00 on 8 March 2026.
        let (from, to) = (datetime!(2026-03-07 00:00 UTC), datetime!(2026-03-10 00:00 UTC));
        let found = ticks("30 2 * * *", "America/New_York", from, to);
        let expected = [
            datetime!(2026-03-07 07:30 UTC),
            datetime!(2026-03-08 07:00 UTC),
            datetime!(2026-03-09 06:30 UTC),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_daily_time_that_is_repeated_in_autumn_fires_once() {
        // New York has 01:00 to 02:00 twice on 1 November 2026.
        let (from, to) = (datetime!(2026-10-31 00:00 UTC), datetime!(2026-11-03 00:00 UTC));
        let found = ticks("30 1 * * *", "America/New_York", from, to);
        let expected = [
            datetime!(2026-10-31 05:30 UTC),
            datetime!(2026-11-01 05:30 UTC),
            datetime!(2026-11-02 06:30 UTC),
        ];
        assert_eq!(found, expected);
        // A start between the two finds the next day's.
        let between = datetime!(2026-11-01 06:10 UTC);
        let next = schedule("30 1 * * *", "America/New_York").next_after(between);
        assert_eq!(next, Some(datetime!(2026-11-02 06:30 UTC)));
    }

    #[test]
    fn every_local_day_of_ten_years_has_one_tick_whatever_the_clocks_do() {
        for zone in ["America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "Asia/Gaza"] {
            for cron in ["30 2 * * *", "30 1 * * *", "0 0 * * *", "15 3 * * *"] {
                let (from, to) = (datetime!(2020-06-01 12:00 UTC), datetime!(2030-06-01 12:00 UTC));
                let found = ticks(cron, zone, from, to);
                let zone = TimeZone::get(zone).expect("known");
                let days: Vec<_> = found
                    .iter()
                    .map(|at| {
                        let seconds = at.unix_timestamp();
                        let at = Timestamp::from_second(seconds).expect("in range");
                        at.to_zoned(zone.clone()).date()
                    })
                    .collect();
                let follow = days.windows(2).all(|two| two[0].tomorrow().ok() == Some(two[1]));
                assert!(follow, "{cron} in {zone:?}");
            }
        }
    }

    #[test]
    fn a_quarter_hourly_schedule_keeps_its_spacing_through_both_changes() {
        for day in [datetime!(2026-03-08 00:00 UTC), datetime!(2026-11-01 00:00 UTC)] {
            let found = ticks("*/15 * * * *", "America/New_York", day, day + Duration::days(1));
            let even = found.windows(2).all(|two| two[1] - two[0] == Duration::minutes(15));
            assert!(even && found.len() == 96, "{} ticks from {day}", found.len());
        }
    }

    #[test]
    fn missed_ticks_pass_or_get_one_job_or_one_each_up_to_the_limit() {
        let hourly = schedule("0 * * * *", "UTC");
        let (due, now) = (datetime!(2026-01-01 01:00 UTC), datetime!(2026-01-01 05:30 UTC));
        let next = Some(datetime!(2026-01-01 06:00 UTC));
        let plan = |catch_up, most| hourly.plan(due, now, catch_up, most);
        let hour = |hour| due.replace_hour(hour).expect("an hour");
        assert_eq!(plan(CatchUp::Skip, 9), Plan { ticks: vec![], next });
        assert_eq!(plan(CatchUp::Once, 9), Plan { ticks: vec![hour(5)], next });
        let all = (1..=5).map(hour).collect();
        assert_eq!(plan(CatchUp::All, 9), Plan { ticks: all, next });
        assert_eq!(plan(CatchUp::All, 2), Plan { ticks: vec![hour(4), hour(5)], next });
        // A tick that is served in time gets its job under every rule.
        for catch_up in [CatchUp::Skip, CatchUp::Once, CatchUp::All] {
            let plan = hourly.plan(due, due + Duration::seconds(3), catch_up, 9);
            assert_eq!(plan, Plan { ticks: vec![due], next: Some(hour(2)) });
        }
    }

    #[test]
    fn a_schedule_that_was_not_served_for_years_is_not_walked_through_all_of_them() {
        let (due, now) = (datetime!(1970-01-01 00:00 UTC), datetime!(2026-01-01 00:00:00.5 UTC));
        let plan = schedule("* * * * * *", "UTC").plan(due, now, CatchUp::All, 1000);
        assert_eq!(plan.ticks.len(), 1000);
        assert_eq!(plan.ticks.last(), Some(&datetime!(2026-01-01 00:00 UTC)));
        let yearly = schedule("0 0 29 2 *", "UTC").plan(due, now, CatchUp::Once, 1);
        assert_eq!(yearly.ticks, [datetime!(2024-02-29 00:00 UTC)]);
    }
}
