//! What happens to the rates when a snapshot is held open, and when very much is owed.
//!
//! How it fails: with the first error. Invariant: the snapshot is held from before the first event
//! until after the last settle.

use std::time::Duration;

use postrider::{Delivery, Subscription};
use serde_json::json;

use super::place::Place;
use super::report::{Metric, Report, median};
use super::{BenchError, Settings};

const FILL_OWED: &str = include_str!("../../bench/ours/fill_owed.sql");
const FANOUT_RATE: &str = include_str!("../../bench/ours/fanout_rate.sql");
const TENTHS_FANOUT: &str = include_str!("../../bench/ours/tenths_fanout.sql");
const TENTHS_SETTLE: &str = include_str!("../../bench/ours/tenths_settle.sql");
const SMALL: i64 = 50_000;
const LIMIT: Duration = Duration::from_secs(1800);

/// Fan-out and settles while a snapshot is held.
pub(crate) async fn held(place: &Place, settings: &Settings) -> Result<Report, BenchError> {
    let events = settings.events.unwrap_or(1_000_000);
    let subscription = || Subscription::new("held", ["**"]);
    let noop = async |_: Delivery| ();
    place.engine()?.subscribe(subscription()?, noop).start().await?.shutdown().await;
    place.script(FILL_OWED, &[("n", events)]).run_once(&place.client).await?;
    let holder = place.database.connect().await?;
    holder.batch_execute("begin isolation level repeatable read; select 1").await?;
    let relay = place.engine()?.start().await?;
    place.until_zero("select exists (select from {schema}.owed)", LIMIT).await?;
    relay.shutdown().await;
    let fanout = place.number(TENTHS_FANOUT).await?;
    eprintln!("fan-out: last tenth {fanout:.2} of the first");
    let worker = place
        .engine()?
        .without_relay()
        .queue("default", settings.concurrency)
        .subscribe(subscription()?, noop)
        .start()
        .await?;
    place.until_zero("select exists (select from {schema}.job)", LIMIT).await?;
    worker.shutdown().await;
    let settle = place.number(TENTHS_SETTLE).await?;
    holder.batch_execute("commit").await?;
    eprintln!("settles: last tenth {settle:.2} of the first");
    let metrics = vec![
        Metric::at_least("fanout_last_vs_first", fanout, 0.8),
        Metric::at_least("settle_last_vs_first", settle, 0.8),
    ];
    let rounds = vec![json!({"events": events, "fanout": fanout, "settle": settle})];
    Ok(Report { name: "held", metrics, rounds })
}

/// The rate with very much owed against the rate with little, and the memory of the process.
pub(crate) async fn backlog(place: &Place, settings: &Settings) -> Result<Report, BenchError> {
    let events = settings.events.unwrap_or(5_000_000);
    let mut rounds = Vec::new();
    let mut small = Vec::new();
    for _ in 0..3 {
        small.push(rate(place, SMALL).await?);
    }
    let large = rate(place, events).await?;
    for _ in 0..2 {
        small.push(rate(place, SMALL).await?);
    }
    let (small, rss) = (median(small), rss_mb());
    eprintln!("{SMALL} owed: {small:.0} events/s; {events} owed: {large:.0} events/s; {rss:.0} MB");
    rounds.push(json!({"small": small, "large": large, "events": events, "rss_mb": rss}));
    let metrics = vec![
        Metric::at_least("rate_vs_small", large / small.max(1.0), 0.9),
        Metric::at_most("relay_rss_mb", rss, 100.0),
    ];
    Ok(Report { name: "backlog", metrics, rounds })
}

async fn rate(place: &Place, events: i64) -> Result<f64, BenchError> {
    place.script(FILL_OWED, &[("n", events)]).run_once(&place.client).await?;
    let relay = place.engine()?.start().await?;
    place.until_zero("select exists (select from {schema}.owed)", LIMIT).await?;
    relay.shutdown().await;
    place.number(FANOUT_RATE).await
}

/// The resident memory of this process in megabytes; zero where the system does not say.
fn rss_mb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap_or_default();
    let kilobytes: f64 =
        line.split_whitespace().nth(1).and_then(|text| text.parse().ok()).unwrap_or_default();
    kilobytes / 1024.0
}
