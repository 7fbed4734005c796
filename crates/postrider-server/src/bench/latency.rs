//! How long from a commit to the start of its handler: idle, against a bare loop, and under load.
//!
//! How it fails: with the first error; an event that never arrives ends the wait after ten seconds.
//! Invariant: a sample is the time from the return of the commit to the first line of the handler,
//! by one clock, since both are in this process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use postrider::{Delivery, NewEvent, Recorder, Subscription};
use serde_json::json;
use tokio::sync::mpsc;

use super::place::Place;
use super::report::{Metric, Report, percentile};
use super::{BenchError, Settings};

const IDLE_SAMPLES: usize = 200;
const IDLE_PAUSE: Duration = Duration::from_millis(30);
const WRITERS: usize = 32;
const ARRIVAL_LIMIT: Duration = Duration::from_secs(10);

/// When each handler started, by the subject of its event.
#[derive(Clone)]
struct Starts(mpsc::UnboundedSender<(String, Instant)>);

/// The three latencies.
pub(crate) async fn latency(place: &Place, settings: &Settings) -> Result<Report, BenchError> {
    let (sender, mut starts) = mpsc::unbounded_channel();
    let told = Starts(sender);
    let engine = place
        .engine()?
        .queue("default", 500)
        .subscribe(Subscription::new("latency", ["order.placed"])?, move |delivery: Delivery| {
            // The clock is read before anything else.
            let start = (delivery.event.subject, Instant::now());
            let told = told.clone();
            async move {
                let _ = told.0.send(start);
            }
        })
        .start()
        .await?;
    let mut rounds = Vec::new();
    let (mut idle, mut bare) = (Vec::new(), Vec::new());
    for _ in 0..settings.rounds.min(3) {
        idle.extend(idle_samples(place, &mut starts).await?);
        bare.extend(bare_samples(place).await?);
    }
    let busy = busy_samples(place, settings, &mut starts).await?;
    engine.shutdown().await;
    let (idle_p50, idle_p99) = (percentile(&idle, 0.5), percentile(&idle, 0.99));
    let (bare_p50, busy_p99) = (percentile(&bare, 0.5), percentile(&busy, 0.99));
    rounds.push(json!({
        "idle_samples": idle.len(), "idle_p50_ms": idle_p50, "idle_p99_ms": idle_p99,
        "loop_p50_ms": bare_p50, "loop_p99_ms": percentile(&bare, 0.99),
        "busy_samples": busy.len(), "busy_p50_ms": percentile(&busy, 0.5), "busy_p99_ms": busy_p99,
    }));
    let metrics = vec![
        Metric::at_most("idle_p50_ms", idle_p50, 2.0),
        Metric::at_most("idle_p99_ms", idle_p99, 10.0),
        Metric::at_most("busy_p99_ms", busy_p99, 100.0),
        Metric::at_most("idle_p50_vs_loop", idle_p50 / bare_p50.max(0.001), 3.0),
    ];
    Ok(Report { name: "latency", metrics, rounds })
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

/// One event at a time, with pauses long enough for everything to fall asleep.
async fn idle_samples(
    place: &Place,
    starts: &mut mpsc::UnboundedReceiver<(String, Instant)>,
) -> Result<Vec<f64>, BenchError> {
    let recorder = Recorder::new(&place.schema);
    let mut client = place.database.connect().await?;
    let mut samples = Vec::new();
    for number in 0..IDLE_SAMPLES {
        tokio::time::sleep(IDLE_PAUSE).await;
        let event = NewEvent::new("order.placed", format!("idle:{number}"))?;
        let mut transaction = client.transaction().await?;
        recorder.record(&mut transaction, &event).await?;
        transaction.commit().await?;
        let committed = Instant::now();
        let (_, started) = tokio::time::timeout(ARRIVAL_LIMIT, starts.recv())
            .await
            .map_err(|_| BenchError::new("an event did not arrive within ten seconds"))?
            .ok_or_else(|| BenchError::new("the engine ended"))?;
        samples.push(millis(started.saturating_duration_since(committed)));
    }
    Ok(samples)
}

/// The least that LISTEN and a claim can take.
async fn bare_samples(place: &Place) -> Result<Vec<f64>, BenchError> {
    place
        .script(include_str!("../../bench/ours/bare_loop.sql"), &[])
        .run_once(&place.client)
        .await?;
    let (woken, mut wakes) = mpsc::unbounded_channel();
    let (listener, driver) = place.listen(move || woken.send(()).is_ok()).await?;
    listener.batch_execute("listen ceiling_bare").await?;
    let worker = place.database.connect().await?;
    let claim = "with c as materialized ( \
                   select id from ceiling.bare order by id limit 1 for no key update skip locked) \
                 delete from ceiling.bare b using c where b.id = c.id returning b.id";
    let claim = worker.prepare(claim).await?;
    let mut client = place.database.connect().await?;
    let insert = client.prepare("insert into ceiling.bare (id) values ($1)").await?;
    let mut samples = Vec::new();
    for number in 0..IDLE_SAMPLES {
        tokio::time::sleep(IDLE_PAUSE).await;
        let id = i64::try_from(number).unwrap_or(0);
        let transaction = client.transaction().await?;
        transaction.execute(&insert, &[&id]).await?;
        transaction.batch_execute("notify ceiling_bare").await?;
        transaction.commit().await?;
        let committed = Instant::now();
        wakes.recv().await;
        worker.query(&claim, &[]).await?;
        samples.push(millis(committed.elapsed()));
    }
    driver.abort();
    Ok(samples)
}

/// Thirty-two writers at half of the rate that they can reach.
async fn busy_samples(
    place: &Place,
    settings: &Settings,
    starts: &mut mpsc::UnboundedReceiver<(String, Instant)>,
) -> Result<Vec<f64>, BenchError> {
    let time = Duration::from_secs(settings.seconds);
    let full = write_for(place, time, Duration::ZERO, "full").await?.len();
    let rate = full as f64 / time.as_secs_f64();
    let pause = Duration::from_secs_f64(WRITERS as f64 / (rate / 2.0).max(1.0));
    place
        .until_zero(
            "select exists (select from {schema}.owed) or exists (select from {schema}.job)",
            Duration::from_secs(120),
        )
        .await?;
    while starts.try_recv().is_ok() {}
    let committed = write_for(place, time, pause, "busy").await?;
    place
        .until_zero(
            "select exists (select from {schema}.owed) or exists (select from {schema}.job)",
            Duration::from_secs(120),
        )
        .await?;
    let mut samples = Vec::new();
    while let Ok((subject, started)) = starts.try_recv() {
        if let Some(committed) = committed.get(&subject) {
            samples.push(millis(started.saturating_duration_since(*committed)));
        }
    }
    if samples.len() < committed.len() {
        return Err(BenchError::new("not every event of the busy run was handled"));
    }
    Ok(samples)
}

/// Writes for some time with a pause between the transactions of a writer; returns when each was
/// committed.
async fn write_for(
    place: &Place,
    time: Duration,
    pause: Duration,
    name: &'static str,
) -> Result<HashMap<String, Instant>, BenchError> {
    let committed: Arc<Mutex<HashMap<String, Instant>>> = Arc::default();
    let started = Instant::now();
    let mut writers = Vec::new();
    for writer in 0..WRITERS {
        let mut client = place.database.connect().await?;
        let (recorder, committed) = (Recorder::new(&place.schema), Arc::clone(&committed));
        writers.push(tokio::spawn(async move {
            let mut number = 0;
            while started.elapsed() < time {
                let begun = Instant::now();
                let subject = format!("{name}:{writer}:{number}");
                number += 1;
                let event = NewEvent::new("order.placed", subject.clone())?;
                let mut transaction = client.transaction().await?;
                recorder.record(&mut transaction, &event).await?;
                transaction.commit().await?;
                let now = Instant::now();
                committed.lock().expect("no holder panics").insert(subject, now);
                tokio::time::sleep(pause.saturating_sub(begun.elapsed())).await;
            }
            Ok::<(), BenchError>(())
        }));
    }
    for writer in writers {
        writer.await.map_err(|_| BenchError::new("a writer panicked"))??;
    }
    let committed = std::mem::take(&mut *committed.lock().expect("no holder panics"));
    Ok(committed)
}
