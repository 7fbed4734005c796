//! B35: nothing is found through the search_path of others, and look-alikes stay untouched.

use std::process::{Command, Stdio};

use postrider::{Database, Delivery, Engine, NewEvent, Recorder, Schema, Subscription, migrate};
use postrider_testkit::{TestDatabase, wait_until};
use tokio_postgres::Client;

use crate::fixture::{PATIENCE, event_type};

const NAME: &str = "Out-Box x";

/// Tables of the application that are called as Postrider's are, and would break if they were used.
const LOOK_ALIKES: &str = "
    create schema app;
    create table app.event (untouched text);
    create table app.owed (untouched text);
    create table app.job (untouched text);
    create table app.setting (untouched text);
    create function app.refuse(text, text, text, text, integer) returns void language plpgsql as
      $f$ begin raise exception 'the look-alike was called'; end $f$;
    create function app.ring() returns void language plpgsql as
      $f$ begin raise exception 'the look-alike was called'; end $f$;";

const RECORDERS: &str = r#"
    create function app.place(subject text) returns uuid language sql set search_path = '' as
      $f$ select "Out-Box x".record('a.b', subject) $f$;
    create function app.place_plain(subject text) returns uuid language plpgsql as
      $f$ begin return "Out-Box x".record('a.b', subject); end $f$;"#;

fn schema() -> Schema {
    Schema::new(NAME).unwrap()
}

async fn installed(db: &TestDatabase) -> Client {
    let mut client = Database::new(&db.url()).unwrap().connect().await.unwrap();
    migrate::apply(&mut client, &schema()).await.unwrap();
    client.batch_execute(LOOK_ALIKES).await.unwrap();
    client.batch_execute(RECORDERS).await.unwrap();
    client
}

async fn engine(
    db: &TestDatabase,
    seen: tokio::sync::mpsc::UnboundedSender<String>,
) -> postrider::Handle {
    // The engine's own sessions stand in the application's schema too.
    let separator = if db.url().contains('?') { '&' } else { '?' };
    let url = format!("{}{separator}options=-csearch_path%3Dapp", db.url());
    Engine::builder(Database::new(&url).unwrap())
        .schema(schema())
        .declare(event_type("a.b"))
        .subscribe(Subscription::new("s", ["a.*"]).unwrap(), move |delivery: Delivery| {
            let _ = seen.send(delivery.event.subject);
            async {}
        })
        .start()
        .await
        .unwrap()
}

async fn next(seen: &mut tokio::sync::mpsc::UnboundedReceiver<String>) -> String {
    tokio::time::timeout(PATIENCE, seen.recv()).await.expect("a delivery").expect("an engine")
}

#[tokio::test(flavor = "multi_thread")]
async fn b35_everything_works_on_the_own_tables_whatever_the_search_path_is() {
    let db = TestDatabase::create().await;
    let mut client = installed(&db).await;
    let (sender, mut seen) = tokio::sync::mpsc::unbounded_channel();
    let engine = engine(&db, sender).await;
    client.batch_execute("set search_path = app").await.unwrap();
    let event = NewEvent::new("a.b", "from the app").unwrap();
    Recorder::new(&schema()).record(&mut client, &event).await.unwrap();
    assert_eq!(next(&mut seen).await, "from the app");
    client.batch_execute("select app.place('fixed empty path')").await.unwrap();
    assert_eq!(next(&mut seen).await, "fixed empty path");
    client
        .batch_execute("set search_path = ''; select app.place_plain('empty path')")
        .await
        .unwrap();
    assert_eq!(next(&mut seen).await, "empty path");
    // A temporary table is looked up before all others unless a path says otherwise.
    client
        .batch_execute(
            "set search_path = app; create temporary table event (x int);
             create temporary table owed (x int); create temporary table setting (x int);
             select app.place_plain('temporary look-alikes')",
        )
        .await
        .unwrap();
    assert_eq!(next(&mut seen).await, "temporary look-alikes");
    // Cleanup: the day is over, the events are done, their partition goes.
    wait_until("nothing is unfinished", PATIENCE, async || {
        let left = client.query_one(r#"select count(*) from "Out-Box x".job"#, &[]).await.unwrap();
        (left.get::<_, i64>(0) == 0).then_some(()).ok_or(format!("{left:?}"))
    })
    .await;
    engine.advance_clock(std::time::Duration::from_secs(9 * 86_400));
    wait_until("the day of the events is dropped", PATIENCE, async || {
        engine.maintain().await.unwrap();
        let left =
            client.query_one(r#"select count(*) from "Out-Box x".event"#, &[]).await.unwrap();
        (left.get::<_, i64>(0) == 0).then_some(()).ok_or(format!("{left:?}"))
    })
    .await;
    // Upgrade: the functions are made anew under the application's path.
    let upgrade = r#"update "Out-Box x".function_set set revision = 0"#;
    client.batch_execute(upgrade).await.unwrap();
    let steps = migrate::apply(&mut client, &schema()).await.unwrap();
    assert!(steps.iter().any(|step| step.starts_with("functions")), "{steps:?}");
    client.batch_execute("select app.place('after the upgrade')").await.unwrap();
    assert_eq!(next(&mut seen).await, "after the upgrade");
    engine.shutdown().await;
    for table in ["event", "owed", "job", "setting"] {
        let sql = format!("select count(*) from app.{table}");
        let rows: i64 = client.query_one(&sql, &[]).await.unwrap().get(0);
        assert_eq!(rows, 0, "app.{table} was written to");
    }
    let sql =
        "select count(*) from pg_class where relnamespace = 'app'::regnamespace and relkind = 'r'";
    assert_eq!(client.query_one(sql, &[]).await.unwrap().get::<_, i64>(0), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn b35_data_that_pg_restore_puts_back_under_an_empty_path_is_whole() {
    let Some(programs) = programs() else { return };
    let (from, to) = (TestDatabase::create().await, TestDatabase::create().await);
    let (client, restored) = (installed(&from).await, installed(&to).await);
    let declare = r#"insert into "Out-Box x".event_type (type) values ('a.b')"#;
    client.batch_execute(declare).await.unwrap();
    client
        .batch_execute("select app.place('order ' || n) from generate_series(1, 50) n")
        .await
        .unwrap();
    let empty = r#"truncate "Out-Box x".setting, "Out-Box x".routing, "Out-Box x".migration,
        "Out-Box x".function_set"#;
    restored.batch_execute(empty).await.unwrap();
    let (from_url, to_url) = (from.url(), to.url());
    tokio::task::spawn_blocking(move || {
        let mut dump = Command::new(programs.join("pg_dump"))
            .args(["--format=custom", "--data-only", "--schema=\"Out-Box x\"", "--dbname"])
            .arg(from_url)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let restore = Command::new(programs.join("pg_restore"))
            .args(["--data-only", "--exit-on-error", "--dbname"])
            .arg(to_url)
            .stdin(dump.stdout.take().unwrap())
            .output()
            .unwrap();
        assert!(dump.wait().unwrap().success());
        assert!(restore.status.success(), "{}", String::from_utf8_lossy(&restore.stderr));
    })
    .await
    .unwrap();
    let (sender, mut seen) = tokio::sync::mpsc::unbounded_channel();
    let engine = engine(&to, sender).await;
    let mut subjects = std::collections::BTreeSet::new();
    while subjects.len() < 50 {
        subjects.insert(next(&mut seen).await);
    }
    // The sequences went along: a new event does not collide with a restored one.
    restored.batch_execute("select app.place('new')").await.unwrap();
    assert_eq!(next(&mut seen).await, "new");
    engine.shutdown().await;
    let collisions = r#"select count(*) from (select seq from "Out-Box x".event group by 1 having
        count(*) > 1) x"#;
    assert_eq!(restored.query_one(collisions, &[]).await.unwrap().get::<_, i64>(0), 0);
}

/// Where `pg_dump` and `pg_restore` are, if they are beside the server.
fn programs() -> Option<std::path::PathBuf> {
    let directory = postrider_embedded::find_binaries().ok()?.directory().to_path_buf();
    let both = ["pg_dump", "pg_restore"].iter().all(|name| directory.join(name).is_file());
    if !both {
        eprintln!("not run: pg_dump and pg_restore are not in {}", directory.display());
    }
    both.then_some(directory)
}

#[test]
fn b35_impossible_names_are_refused_at_start_with_a_message() {
    for (name, says) in [
        ("", "empty"),
        (&*"x".repeat(64), "63 bytes"),
        (&*"ж".repeat(32), "63 bytes"),
        ("a\0b", "control character"),
        ("a\nb", "control character"),
        ("pg_outbox", "pg_"),
        ("public", "belongs to others"),
        ("information_schema", "belongs to others"),
    ] {
        let refused = Schema::new(name).expect_err(name);
        assert!(refused.to_string().contains(says), "{name:?}: {refused}");
    }
}
