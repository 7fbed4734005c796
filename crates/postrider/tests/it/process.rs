//! Real processes: the test program starts itself again in a part that is named by a variable.

use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use postrider::{Backoff, Database, Delivery, Engine, NewEvent, Outcome, Policy, Recorder};

use crate::fixture::Fixture;
use crate::support::eager;

/// Which part a process plays; unset in a run of the tests.
const PART: &str = "POSTRIDER_IT_PART";
/// Where it finds its database.
const URL: &str = "POSTRIDER_IT_PART_URL";

/// The other process. In a run of the tests it has nothing to do and ends at once.
#[tokio::test(flavor = "multi_thread")]
async fn part() {
    let Ok(part) = std::env::var(PART) else { return };
    let database = Database::new(&std::env::var(URL).unwrap()).unwrap().pool_size(8);
    match part.as_str() {
        "aborts" => aborts(database).await,
        "relays" => relays(database).await,
        "skewed" => skewed(database).await,
        "ticks" => crate::periodic_processes::ticks(database).await,
        "records" => {
            let event = NewEvent::new("a.b", "skewed").unwrap();
            let mut client = database.connect().await.unwrap();
            Recorder::default().record(&mut client, &event).await.unwrap();
        }
        other => panic!("no part {other}"),
    }
}

/// A handler that ends the whole process for one event, beside one that does nothing.
async fn aborts(database: Database) {
    let deadly = async |delivery: Delivery| {
        if delivery.event.subject == "deadly" {
            std::process::abort();
        }
    };
    let _engine = Engine::builder(database)
        .lease(Duration::from_secs(1))
        .poll_interval(Duration::from_millis(100))
        .subscribe(eager("deadly", &["a.b"], 3), deadly)
        .subscribe(eager("other", &["a.c"], 3), async |_: Delivery| ())
        .start()
        .await
        .unwrap();
    std::future::pending::<()>().await;
}

/// A relay alone.
async fn relays(database: Database) {
    let _engine = Engine::builder(database)
        .lease(Duration::from_secs(1))
        .poll_interval(Duration::from_millis(100))
        .relay_retry_wait(Duration::from_millis(10))
        .start()
        .await
        .unwrap();
    std::future::pending::<()>().await;
}

/// A worker and relay whose clock is not the database's: one event fails, one is held.
async fn skewed(database: Database) {
    let handler = async |delivery: Delivery| match delivery.event.subject.as_str() {
        "fails" if delivery.attempt == 1 => Outcome::Retry("the first time".into()),
        "holds" => std::future::pending().await,
        _ => Outcome::Done(None),
    };
    let backoff = Backoff::list([Duration::from_secs(60)]).unwrap();
    let subscription = eager("s", &["a.b"], 5).policy(Policy { backoff, ..Policy::default() });
    let _engine = Engine::builder(database)
        .name("skewed")
        .lease(Duration::from_secs(6))
        .poll_interval(Duration::from_millis(100))
        .subscribe(subscription, handler)
        .start()
        .await
        .unwrap();
    std::future::pending::<()>().await;
}

/// A process that ends with its value, also when the test fails.
pub(crate) struct Process(Child);

impl Process {
    /// Starts `part` on the database of `fixture`.
    pub(crate) fn start(fixture: &Fixture, part: &str) -> Self {
        Self::spawn(Command::new(std::env::current_exe().unwrap()), fixture, part)
    }

    /// As `start`, with a clock that is `offset` away, such as `-5m`.
    pub(crate) fn start_with_clock(fixture: &Fixture, part: &str, offset: &str) -> Self {
        let mut command = Command::new("faketime");
        // Time spans are not what this is about.
        command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        command.args(["-m", "-f", offset]).arg(std::env::current_exe().unwrap());
        Self::spawn(command, fixture, part)
    }

    fn spawn(mut command: Command, fixture: &Fixture, part: &str) -> Self {
        let child = command
            .args(["--exact", "process::part", "--nocapture"])
            .env(PART, part)
            .env(URL, fixture.db.url())
            // `faketime` stays as the parent of what it starts, so the two end as a group.
            .process_group(0)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("{:?}: {error}", command.get_program()));
        Self(child)
    }

    /// Whether it has ended by itself.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.0.try_wait().unwrap().is_some()
    }

    /// Waits for its end.
    pub(crate) fn wait(&mut self) -> std::process::ExitStatus {
        self.0.wait().unwrap()
    }

    /// Ends it by SIGKILL.
    pub(crate) fn kill(&mut self) {
        // A group that has been waited for may be somebody else's by now.
        if self.has_ended() {
            return;
        }
        let group = format!("-{}", self.0.id());
        let _ = Command::new("kill").args(["-KILL", "--", &group]).stderr(Stdio::null()).status();
        self.0.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
