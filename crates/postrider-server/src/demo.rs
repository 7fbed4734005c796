//! `postrider demo`: a small shop records events, a worker dies, and a verdict says what became of
//! them.
//!
//! What it is: this process is the shop ([`producer`]), the audience ([`watch`], [`view`]) and the
//! saboteur ([`chaos`]); the subscribers run in processes of their own ([`crew`], [`worker`]);
//! [`place`] finds or starts PostgreSQL; [`verdict`] judges.
//!
//! How it fails: every failure is a sentence with what to do and an exit code: 1 when a promise was
//! broken or the demo could not finish, 2 when there is no PostgreSQL or a foreign schema is in the
//! way, 3 when the database does not answer. Invariants: whatever happens, worker processes, the
//! private server and the schemas are gone at the end, unless they are to be kept.

mod args;
mod chance;
mod chaos;
mod crew;
mod failure;
mod orders;
mod place;
mod producer;
mod progress;
mod scene;
mod signals;
mod verdict;
mod view;
mod watch;
mod worker;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio::time::Instant;

pub(crate) use args::Args;
use chance::Chance;
use chaos::{Chaos, Tally};
use crew::Crew;
use failure::Failure;
use place::Place;
use progress::Progress;
use scene::Scene;
use signals::Signals;
use verdict::Verdict;
use view::{View, counted};
use watch::Watch;

/// How many events a visitor sees who says nothing.
const EVENTS: u32 = 2_000;
/// The pace for them, events a second.
const FRIENDLY_RATE: f64 = 120.0;
/// With `--events` the recording takes about this long, if the machine can.
const RECORDING: f64 = 10.0;
/// No pace is slower than this, in events a second.
const RATE_MIN: f64 = 100.0;
/// Worker processes.
const WORKERS: usize = 2;
/// When workers are killed, in percent of the events recorded.
const ONE_KILL: &[i64] = &[45];
const CHAOS: &[i64] = &[20, 50, 80];

/// How long called-off tasks may take to end before the place is closed all the same.
const USERS_GONE_WITHIN: Duration = Duration::from_secs(5);

/// Runs the demo, one of its workers, or its verdict.
pub(crate) fn main(args: Args) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return Failure::from(error).report(),
    };
    let result = runtime.block_on(dispatch(args));
    // Not waiting for a read of standard input that never ends.
    runtime.shutdown_background();
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failure) => failure.report(),
    }
}

async fn dispatch(args: Args) -> Result<bool, Failure> {
    let url = args.database_url.as_deref().filter(|url| !url.is_empty());
    let view = View::new();
    if let Some(name) = &args.worker {
        return worker::run(url.unwrap_or_default(), name, args.seed).await;
    }
    if args.verdict_only {
        let url = url.ok_or_else(|| {
            Failure::configuration("--verdict-only needs a database", "add --database-url")
        })?;
        let place = Place::reopen(url, &view).await?;
        return judge(&args, &place).await;
    }
    run(&args, url, &view).await
}

/// Finds the place, shows the demo there, judges, and cleans up whatever happened.
async fn run(args: &Args, url: Option<&str>, view: &View) -> Result<bool, Failure> {
    let mut signals = Signals::new()?;
    let place = tokio::select! {
        place = Place::find(url, args.keep, view) => Arc::new(place?),
        () = signals.any() => return Err(Failure::new("interrupted")),
    };
    let outcome = tokio::select! {
        outcome = show(args, &place, view) => outcome,
        () = signals.any() => Err(Failure::new("interrupted")),
    };
    view.leave();
    if let Ok(verdict) = &outcome {
        print_verdict(args, verdict);
        if let (true, Some(url)) = (args.keep, place.private_url()) {
            view.tell(&format!("\nThe private PostgreSQL runs on until Ctrl-C:\npsql '{url}'"));
            signals.any().await;
        }
    }
    tokio::select! {
        closed = close(&place) => closed?,
        // A second signal: the watchdog of the private server sees to the rest.
        () = signals.any() => return Err(Failure::new("interrupted while cleaning up")),
    }
    Ok(outcome?.objections(args.chaos).is_empty())
}

/// Runs shop, workers, chaos and watch to their end, and takes the verdict.
async fn show(args: &Args, place: &Arc<Place>, view: &View) -> Result<Verdict, Failure> {
    place.prepare(view).await?;
    let crew = Crew::start(place.clone(), view.clone(), args.seed, WORKERS).await?;
    let crew = Arc::new(Mutex::new(crew));
    play(args, place, view, &crew).await?;
    let client = place.database("verdict")?.connect().await?;
    client.execute(include_str!("demo/sql/run_finish.sql"), &[]).await?;
    if let Some(crew) = Arc::into_inner(crew) {
        crew.into_inner().stop().await;
    }
    Verdict::take(&client).await
}

/// Records all events and returns when they are handled and the last kill is over.
async fn play(
    args: &Args,
    place: &Arc<Place>,
    view: &View,
    crew: &Arc<Mutex<Crew>>,
) -> Result<(), Failure> {
    let wanted = i64::from(args.events.unwrap_or(EVENTS));
    let rate = pace(args);
    introduce(args, wanted, view);
    let progress = Arc::new(Progress::new(wanted, rate));
    let tally = Arc::new(Tally::default());
    let mut tasks = producers(args, place, &progress, rate);
    let chaos = Chaos {
        place: place.clone(),
        progress: progress.clone(),
        crew: crew.clone(),
        tally: tally.clone(),
        view: view.clone(),
        at_percent: if args.chaos { CHAOS } else { ONE_KILL },
    };
    tasks.spawn(async { chaos.run().await.map_err(|failure| failure.while_doing("killing")) });
    let limit = args.give_up_after.map_or(60.0 + wanted as f64 / 100.0, f64::from);
    let mut watch = Watch {
        client: place.database("watch")?.connect().await?,
        progress: progress.clone(),
        crew: crew.clone(),
        tally,
        view: view.clone(),
        scene: Scene { wanted, ..Scene::default() },
        deadline: Instant::now() + Duration::from_secs_f64(limit),
    };
    let finished = tokio::select! {
        watched = watch.run() => watched.map_err(|failure| failure.while_doing("watching")),
        Err(failure) = all(&mut tasks) => Err(failure),
    };
    progress.set_idle();
    if finished.is_ok() {
        all(&mut tasks).await?;
    }
    tasks.shutdown().await;
    finished
}

/// Says what is about to happen.
fn introduce(args: &Args, wanted: i64, view: &View) {
    view.tell(
        "In both run the same three subscribers: search.index keeps the latest state of each \
         order, \
         billing.ledger books each payment exactly once, audit fails now and then and tries again.",
    );
    view.tell(&format!(
        "The shop records {} from {}; some of its transactions roll back, some commit late.\n",
        counted(wanted as usize, "event"),
        counted(args.producers as usize, "connection")
    ));
}

/// How many events a second are begun at most.
fn pace(args: &Args) -> f64 {
    match (args.rate, args.events) {
        (Some(rate), _) => f64::from(rate),
        (None, Some(events)) => (f64::from(events) / RECORDING).max(RATE_MIN),
        (None, None) => FRIENDLY_RATE,
    }
}

fn producers(
    args: &Args,
    place: &Arc<Place>,
    progress: &Arc<Progress>,
    rate: f64,
) -> JoinSet<Result<(), Failure>> {
    // At a high rate transactions are larger, as those of busy services are.
    let events_max = (rate / 250.0).clamp(4.0, 60.0) as u64;
    let mut tasks = JoinSet::new();
    for number in 0..args.producers {
        let chance = Chance::new(args.seed, u64::from(number));
        let producer = producer::run(place.clone(), progress.clone(), chance, events_max);
        tasks.spawn(async { producer.await.map_err(|failure| failure.while_doing("recording")) });
    }
    tasks
}

/// Waits for all tasks; the first failure is the answer.
async fn all(tasks: &mut JoinSet<Result<(), Failure>>) -> Result<(), Failure> {
    while let Some(ended) = tasks.join_next().await {
        ended.map_err(|error| Failure::new(format!("a task panicked: {error}")))??;
    }
    Ok(())
}

/// Closes the place when the last of its users is gone: tasks that were called off, and workers.
async fn close(place: &Arc<Place>) -> Result<(), Failure> {
    let deadline = Instant::now() + USERS_GONE_WITHIN;
    while Arc::strong_count(place) > 1 && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    place.close().await.map_err(|failure| failure.while_doing("cleaning up"))
}

async fn judge(args: &Args, place: &Place) -> Result<bool, Failure> {
    let verdict = Verdict::take(&place.database("verdict")?.connect().await?).await?;
    print_verdict(args, &verdict);
    Ok(verdict.objections(args.chaos).is_empty())
}

fn print_verdict(args: &Args, verdict: &Verdict) {
    if !args.json {
        print!("{}", verdict.text(args.chaos));
        return;
    }
    for objection in verdict.objections(args.chaos) {
        eprintln!("error: {objection}");
    }
    let line = serde_json::to_string(verdict).expect("numbers can be written as JSON");
    println!("{line}");
}
