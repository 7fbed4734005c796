//! The benches themselves.
//!
//! How it fails: with the first error of either side. Invariant: both sides of a ratio run in
//! turns, A B, B A, A B, …, on the same server in the same minute.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use postrider::{Delivery, Subscription};
use serde_json::json;

use super::load::{self, Script};
use super::place::Place;
use super::report::{Metric, Report, median};
use super::{BenchError, Settings};

const WRITE_PLAIN: &str = include_str!("../../bench/ceiling/write_plain.sql");
const WRITE_NOTIFY: &str = include_str!("../../bench/ceiling/write_notify.sql");
const WRITE_RECORD: &str = include_str!("../../bench/ours/write_record.sql");
const FANOUT: &str = include_str!("../../bench/ceiling/fanout.sql");
const DRAIN: &str = include_str!("../../bench/ceiling/drain.sql");
const FILL_OWED: &str = include_str!("../../bench/ours/fill_owed.sql");
const FILL_JOBS: &str = include_str!("../../bench/ours/fill_jobs.sql");
const FANOUT_RATE: &str = include_str!("../../bench/ours/fanout_rate.sql");
const DRAIN_RATE: &str = include_str!("../../bench/ours/drain_rate.sql");
const CEILING_JOBS: &str = include_str!("../../bench/ours/ceiling_jobs.sql");

const EMPTY: &str = include_str!("../../bench/ours/empty.sql");

const CONNECTIONS: usize = 32;
const BATCH: i64 = 200;

/// The order of the sides in a round: 0 1 2, then 2 1 0, and so on.
fn order(round: usize, sides: usize) -> Vec<usize> {
    let forward: Vec<usize> = (0..sides).collect();
    if round.is_multiple_of(2) { forward } else { forward.into_iter().rev().collect() }
}

/// `record` against the hand-written writes, and five relays against one. Every side writes under
/// the same load: what it writes is fanned out to the three subscriptions meanwhile, by the
/// hand-written fan-out or by the relay. What the writes come to with no fan-out beside them is
/// shown, not judged.
pub(crate) async fn write(place: &Place, settings: &Settings) -> Result<Report, BenchError> {
    subscribe_three(place).await?;
    let scripts = [
        place.script(WRITE_PLAIN, &[]),
        place.script(WRITE_PLAIN, &[]),
        place.script(WRITE_NOTIFY, &[]),
        place.script(WRITE_RECORD, &[]),
    ];
    let time = Duration::from_secs(settings.seconds);
    let mut rounds = Vec::new();
    for round in 0..settings.rounds {
        // plain with nothing beside it, plain, notify, ours with one relay, ours with five
        let mut rates = [0.0; 5];
        for side in order(round, 5) {
            place.script(EMPTY, &[]).run_once(&place.client).await?;
            let script = &scripts[side.min(3)];
            rates[side] = match side {
                0 => load::rate(&place.database, script, CONNECTIONS, time).await?,
                1 | 2 => beside_ceiling_relay(place, script, time).await?,
                _ => beside_relays(place, script, time, [1, 5][side - 3]).await?,
            };
        }
        let [alone, plain, notify, one, five] = rates;
        eprintln!(
            "round {}: plain {plain:.0} ({alone:.0} alone), notify {notify:.0}, record {one:.0}, \
             with five relays {five:.0} tx/s",
            round + 1
        );
        rounds.push(json!({
            "plain": plain, "plain_alone": alone, "notify": notify, "record": one,
            "record_five_relays": five
        }));
    }
    let ratio = |a: &str, b: &str| median(rounds.iter().map(|round| quotient(round, a, b)));
    let metrics = vec![
        Metric::at_least("record_vs_plain", ratio("record", "plain"), 0.85),
        Metric::at_least("record_vs_notify", ratio("record", "notify"), 1.5),
        Metric::at_least("five_relays_vs_one", ratio("record_five_relays", "record"), 0.9),
    ];
    Ok(Report { name: "write", metrics, rounds })
}

async fn beside_ceiling_relay(
    place: &Place,
    script: &Script,
    time: Duration,
) -> Result<f64, BenchError> {
    let stop = Arc::new(AtomicBool::new(false));
    let fanout = place.script(FANOUT, &[("b", BATCH)]);
    let relay = load::relay(&place.database, &fanout, Arc::clone(&stop)).await?;
    let rate = load::rate(&place.database, script, CONNECTIONS, time).await;
    stop.store(true, Ordering::Relaxed);
    relay.await.map_err(|_| BenchError::new("the hand-written relay panicked"))??;
    rate
}

async fn beside_relays(
    place: &Place,
    script: &Script,
    time: Duration,
    relays: usize,
) -> Result<f64, BenchError> {
    let mut engines = Vec::new();
    for _ in 0..relays {
        engines.push(place.engine()?.start().await?);
    }
    let rate = load::rate(&place.database, script, CONNECTIONS, time).await;
    for engine in engines {
        engine.shutdown().await;
    }
    rate
}

/// The relay against the hand-written fan-out, with one and with two.
pub(crate) async fn fanout(place: &Place, settings: &Settings) -> Result<Report, BenchError> {
    let events = settings.events.unwrap_or(100_000);
    subscribe_three(place).await?;
    let script = place.script(FANOUT, &[("b", BATCH)]);
    let mut rounds = Vec::new();
    for round in 0..settings.rounds {
        // the ceiling with one and two clients, ours with one and two relays
        let mut rates = [0.0; 4];
        for side in order(round, 4) {
            rates[side] = match side {
                0 | 1 => ceiling_fanout(place, &script, side as u32 + 1, events).await?,
                _ => our_fanout(place, side - 1, events).await?,
            };
        }
        let [ceiling, ceiling_two, relay, relay_two] = rates;
        eprintln!(
            "round {}: ceiling {ceiling:.0} and {ceiling_two:.0}, \
             relay {relay:.0} and {relay_two:.0} events/s",
            round + 1
        );
        rounds.push(json!({
            "ceiling": ceiling, "ceiling_two": ceiling_two, "relay": relay, "relay_two": relay_two
        }));
    }
    let metrics = vec![
        Metric::at_least(
            "relay_vs_ceiling",
            median(rounds.iter().map(|round| quotient(round, "relay", "ceiling"))),
            0.6,
        ),
        Metric::at_least(
            "two_relays_gain_vs_ceiling",
            median(rounds.iter().map(|round| {
                quotient(round, "relay_two", "relay") / quotient(round, "ceiling_two", "ceiling")
            })),
            0.85,
        ),
    ];
    Ok(Report { name: "fanout", metrics, rounds })
}

/// The three subscriptions of the ceiling, without a handler running.
async fn subscribe_three(place: &Place) -> Result<(), BenchError> {
    let mut builder = place.engine()?.without_relay();
    for (name, glob) in [("search.index", "corpus.**"), ("webhook.fanout", "**"), ("audit", "**")] {
        builder = builder.subscribe(Subscription::new(name, [glob])?, async |_: Delivery| ());
    }
    builder.start().await?.shutdown().await;
    Ok(())
}

async fn ceiling_fanout(
    place: &Place,
    script: &Script,
    clients: u32,
    events: i64,
) -> Result<f64, BenchError> {
    let fill = "truncate ceiling.jobs, ceiling.owed; \
                insert into ceiling.owed select seq from ceiling.events";
    place.client.batch_execute(fill).await?;
    place.client.batch_execute("vacuum analyze ceiling.owed").await?;
    let times = u32::try_from(events / BATCH).unwrap_or(u32::MAX);
    Ok(load::rate_of(&place.database, script, clients, times).await? * BATCH as f64)
}

async fn our_fanout(place: &Place, relays: usize, events: i64) -> Result<f64, BenchError> {
    place.script(FILL_OWED, &[("n", events)]).run_once(&place.client).await?;
    let mut engines = Vec::new();
    for _ in 0..relays {
        engines.push(place.engine()?.start().await?);
    }
    place.until_zero("select exists (select from {schema}.owed)", Duration::from_secs(300)).await?;
    for engine in engines {
        engine.shutdown().await;
    }
    place.number(FANOUT_RATE).await
}

/// No-op handlers in one process against the hand-written drain.
pub(crate) async fn drain(place: &Place, settings: &Settings) -> Result<Report, BenchError> {
    let jobs = settings.events.unwrap_or(100_000);
    let subscription = || Subscription::new("drain", ["order.placed"]);
    let noop = async |_: Delivery| ();
    place.engine()?.subscribe(subscription()?, noop).start().await?.shutdown().await;
    let script = place.script(DRAIN, &[("b", 500)]);
    let mut rounds = Vec::new();
    for round in 0..settings.rounds {
        let mut rates = [0.0; 2];
        for side in order(round, 2) {
            rates[side] = match side {
                0 => {
                    place.script(CEILING_JOBS, &[("n", jobs)]).run_once(&place.client).await?;
                    let times = u32::try_from(jobs / 500).unwrap_or(u32::MAX);
                    load::rate_of(&place.database, &script, 1, times).await? * 500.0
                }
                _ => {
                    place.script(FILL_JOBS, &[("n", jobs)]).run_once(&place.client).await?;
                    let engine = place
                        .engine()?
                        .queue("default", settings.concurrency)
                        .subscribe(subscription()?, noop)
                        .start()
                        .await?;
                    let left = "select exists (select from {schema}.job)";
                    place.until_zero(left, Duration::from_secs(300)).await?;
                    engine.shutdown().await;
                    place.number(DRAIN_RATE).await?
                }
            };
        }
        let [ceiling, ours] = rates;
        eprintln!("round {}: ceiling {ceiling:.0}, ours {ours:.0} jobs/s", round + 1);
        rounds.push(json!({"ceiling": ceiling, "ours": ours}));
    }
    let ratio = median(rounds.iter().map(|round| quotient(round, "ours", "ceiling")));
    Ok(Report {
        name: "drain",
        metrics: vec![Metric::at_least("drain_vs_ceiling", ratio, 0.8)],
        rounds,
    })
}

/// One figure of a round over another.
fn quotient(round: &serde_json::Value, above: &str, below: &str) -> f64 {
    let figure = |name: &str| round[name].as_f64().unwrap_or(0.0);
    figure(above) / figure(below).max(f64::MIN_POSITIVE)
}
