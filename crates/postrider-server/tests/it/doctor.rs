//! `postrider doctor`: each finding with the fault that it is about.

use std::time::Duration;

use postrider_testkit::TestServer;
use serde_json::Value;
use tokio::process::Command;

use crate::program::{Ended, Program, command, end};

/// The findings of one check.
fn findings<'a>(report: &'a Value, check: &str) -> Vec<&'a Value> {
    let all = report["findings"].as_array().unwrap();
    all.iter().filter(|finding| finding["check"] == check).collect()
}

/// The level of a check and all its words.
fn told(report: &Value, check: &str) -> (String, String) {
    let found = findings(report, check);
    let first = found.first().unwrap_or_else(|| panic!("no {check} in {report:#}"));
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let words = found
        .iter()
        .map(|finding| format!("{} -> {}", text(&finding["found"]), text(&finding["advice"])));
    (first["level"].as_str().unwrap().to_owned(), words.collect::<Vec<_>>().join("\n"))
}

/// Asserts the level of a check and words that it says.
#[track_caller]
fn expect(report: &Value, check: &str, level: &str, words: &[&str]) {
    let (found, said) = told(report, check);
    assert_eq!(found, level, "{check}: {said}");
    for word in words {
        assert!(said.contains(word), "{check} does not say {word:?}: {said}");
    }
}

async fn examine(program: &Program) -> Value {
    program.run(&["doctor", "--json"]).await.json()
}

/// Runs the doctor with `arguments` on another URL.
async fn examine_at(url: &str, arguments: &[&str]) -> Ended {
    let mut command = command(&[&["doctor", "--json"], arguments].concat());
    command.env("DATABASE_URL", url);
    end(command).await
}

#[tokio::test]
async fn a_missing_schema_is_a_problem_and_says_what_to_run() {
    let program = Program::empty().await;
    let ended = program.run(&["doctor"]).await.code(1);
    ended.says("problem  schema").says("-> run: postrider migrate").says("1 problem");
}

#[tokio::test]
async fn a_schema_of_another_version_is_a_problem_and_says_which() {
    let program = Program::migrated().await;
    let newer = "insert into postrider.migration (version, name) values (99, 'future')";
    program.client.batch_execute(newer).await.unwrap();
    let report = examine(&program).await;
    expect(&report, "schema", "problem", &["at version 99", "newer than this program"]);
    program.client.batch_execute("delete from postrider.migration").await.unwrap();
    let report = examine(&program).await;
    expect(&report, "schema", "problem", &["at version 0", "postrider migrate"]);
}

#[tokio::test]
async fn a_healthy_instance_is_well() {
    let program = Program::migrated().await;
    let serve = program.start(&["serve"]);
    serve.wait_for("ready").await;
    // The relay takes up its locks once it hears, which may be after the process is ready.
    let locking = "select count(*) from pg_stat_activity
        where datname = current_database() and application_name like '% locks'";
    program.wait_for_count("the relay has its connection for locks", locking, 1).await;
    let report = program.ok(&["doctor", "--json"]).await.json();
    for check in [
        "connection",
        "server",
        "clock",
        "connections",
        "pooler",
        "wake-up",
        "sight",
        "schema",
        "privileges",
        "processes",
        "dead processes",
        "lost processes",
        "backlog",
        "failing",
        "poisoned",
        "subscriptions",
        "autovacuum",
        "partitions",
        "default partitions",
    ] {
        expect(&report, check, "ok", &[]);
    }
    for finding in report["findings"].as_array().unwrap() {
        let finding = finding.as_object().unwrap();
        assert!(finding["found"].is_string() && finding.contains_key("advice"), "{finding:?}");
        assert_eq!(finding["advice"].is_null(), finding["level"] == "ok", "{finding:?}");
    }
    let connections = findings(&report, "connections")[0];
    assert!(connections["numbers"]["listening"].as_i64().unwrap() >= 1, "{connections}");
    assert!(connections["numbers"]["locking"].as_i64().unwrap() >= 1, "{connections}");
}

#[tokio::test]
async fn what_is_wrong_with_the_work_is_found() {
    let program = Program::migrated().await;
    program.ok(&["types", "declare", "order.placed"]).await;
    program.ok(&["record", "order.placed", "o:1"]).await;
    program.ok(&["record", "order.placed", "o:2"]).await;
    program.ok(&["subscriptions", "create", "mail", "--type", "order.*"]).await;
    program
        .client
        .batch_execute(
            "update postrider.owed set occurred_at = occurred_at - interval '1 hour' where seq = 1;
             with taken as (delete from postrider.owed where seq = 2 returning seq, occurred_at)
               insert into postrider.fanout_failure
                 (seq, occurred_at, tenant, key, attempts, poisoned_at, last_error)
               select seq, occurred_at, '', 'o:2', 5, now(), 'never' from taken;
             delete from postrider.event_type;
             insert into postrider.session (id, name, version, runs_relay, started_at, expires_at)
               values (gen_random_uuid(), 'dead', '0', true, now(), now() - interval '1 minute');
             insert into postrider.session (id, name, version, runs_relay, started_at, expires_at,
                 ended_at, end_reason)
               values (gen_random_uuid(), 'gone:7', '0', true, now(), now(),
                 now() - interval '10 minutes', 'lost');
             insert into postrider.event (seq, occurred_at, id, tenant, type, subject, key, data)
               select 99, now() - interval '99 days', gen_random_uuid(), '', 'a', 's', 's', '{}';",
        )
        .await
        .unwrap();
    let report = program.run(&["doctor", "--json"]).await.code(1).json();
    assert_eq!(report["level"], "problem");
    for (check, level, words) in [
        ("backlog", "problem", "the oldest for 60 min"),
        ("poisoned", "problem", "events list --state poisoned"),
        ("processes", "warning", "no process runs an engine"),
        ("dead processes", "problem", "dead"),
        ("lost processes", "warning", "gone:7, 10 min ago"),
        ("subscriptions", "warning", "mail: order.*"),
        ("default partitions", "warning", "event: 1"),
    ] {
        expect(&report, check, level, &[words]);
    }
}

#[tokio::test]
async fn a_late_process_beside_a_live_one_is_a_warning_and_then_a_problem() {
    let program = Program::migrated().await;
    let sessions = "insert into postrider.session
        (id, name, version, runs_relay, started_at, expires_at)
        values (gen_random_uuid(), 'live', '0', true, now(), now() + interval '1 hour'),
          (gen_random_uuid(), 'late', '0', true, now(), now() - interval '5 seconds')";
    program.client.batch_execute(sessions).await.unwrap();
    expect(&examine(&program).await, "dead processes", "warning", &["late", "look again"]);
    let later = "update postrider.session set expires_at = now() - interval '2 minutes'
        where name = 'late'";
    program.client.batch_execute(later).await.unwrap();
    expect(&examine(&program).await, "dead processes", "problem", &["late", "see their logs"]);
}

#[tokio::test]
async fn a_wrong_clock_is_a_warning_with_its_direction() {
    let program = Program::migrated().await;
    for (offset, words) in [("+5m", "ahead of the server"), ("-5m", "behind the server")] {
        let mut faked = Command::new("faketime");
        faked.args(["-m", "-f", offset, env!("CARGO_BIN_EXE_postrider"), "doctor", "--json"]);
        faked.env("FAKETIME_DONT_FAKE_MONOTONIC", "1").env("DATABASE_URL", program.db.url());
        let report = end(faked).await.json();
        expect(&report, "clock", "warning", &[words, "NTP"]);
        let ms = findings(&report, "clock")[0]["numbers"]["difference_ms"].as_i64().unwrap();
        assert!((290_000..=300_000).contains(&ms), "{ms}");
    }
}

#[tokio::test]
async fn a_role_without_rights_is_told_what_to_grant() {
    let program = Program::migrated().await;
    let role = format!("r_{}", program.db.name());
    let make = format!("create role {role} login password 'secret'");
    program.client.batch_execute(&make).await.unwrap();
    let url = with_user(&program.db.url(), &role);
    let report = examine_at(&url, &[]).await.code(1).json();
    expect(&report, "privileges", "problem", &["usage on schema \"postrider\""]);
    expect(&report, "sight", "warning", &["grant pg_monitor"]);
    // Granting all that it lists makes it well, but for what it asks a superuser for.
    for _ in 0..3 {
        let report = examine_at(&url, &[]).await.json();
        if told(&report, "privileges").0 == "ok" {
            break;
        }
        let advice = findings(&report, "privileges")[0]["advice"].as_str().unwrap().to_owned();
        let grants = advice.strip_prefix("as the owner of the schema: ").unwrap();
        program.client.batch_execute(grants).await.unwrap();
    }
    let report = examine_at(&url, &[]).await.code(0).json();
    expect(&report, "privileges", "ok", &[&role]);
    let revoke = format!("revoke delete on postrider.job from {role}");
    program.client.batch_execute(&revoke).await.unwrap();
    let report = examine_at(&url, &[]).await.code(1).json();
    let grant = format!("grant delete on table \"postrider\".job to {role}");
    expect(&report, "privileges", "problem", &[&grant]);
    let drop = format!("drop owned by {role}; drop role {role}");
    program.client.batch_execute(&drop).await.unwrap();
}

/// The URL with another user, whose password is `secret`.
fn with_user(url: &str, user: &str) -> String {
    let rest = url.split_once("://").unwrap().1;
    let place = rest.rsplit_once('@').map_or(rest, |(_, place)| place);
    format!("postgres://{user}:secret@{place}")
}

#[tokio::test]
async fn a_table_that_is_not_vacuumed_is_found_with_its_dead_rows() {
    let program = Program::migrated().await;
    // Autovacuum passes by a table that is locked like this.
    let locker = program.db.client().await;
    locker
        .batch_execute("begin; lock table postrider.owed in share update exclusive mode")
        .await
        .unwrap();
    let dead = "insert into postrider.owed select n, now() from generate_series(1, 120000) n;
        delete from postrider.owed";
    program.client.batch_execute(dead).await.unwrap();
    postrider_testkit::wait_until("statistics know of it", Duration::from_secs(30), async || {
        let report = examine(&program).await;
        let (level, words) = told(&report, "autovacuum");
        let found = words.contains("does not come to owed: 120000 dead rows, vacuumed never");
        (level == "warning" && found).then_some(()).ok_or(words)
    })
    .await;
    locker.batch_execute("rollback").await.unwrap();
    let off = "alter table postrider.job set (autovacuum_enabled = false)";
    program.client.batch_execute(off).await.unwrap();
    let report = program.run(&["doctor", "--json"]).await.code(1).json();
    let words = ["off for job", "alter table \"postrider\".job reset (autovacuum_enabled)"];
    let said = told(&report, "autovacuum").1;
    assert!(words.iter().all(|word| said.contains(word)), "{said}");
}

#[tokio::test]
async fn partitions_that_run_out_are_found() {
    let program = Program::migrated().await;
    let drop_ahead = |from: i32| {
        format!(
            "do $$ declare part record; begin
               for part in select name from postrider.partitions_of('event')
                 where day >= (now() at time zone 'UTC')::date + {from} loop
                 execute format('drop table postrider.%I', part.name);
               end loop; end $$"
        )
    };
    program.client.batch_execute(&drop_ahead(3)).await.unwrap();
    expect(&examine(&program).await, "partitions", "warning", &["2 days ahead", "serve"]);
    program.client.batch_execute(&drop_ahead(0)).await.unwrap();
    expect(&examine(&program).await, "partitions", "problem", &["missing for event"]);
}

#[tokio::test]
async fn who_holds_vacuum_back_is_named_with_what_ends_it() {
    let server = TestServer::own().await;
    let url = format!("{}?application_name=reporting", server.url());
    let (holder, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let prepare = "create table t (); begin; insert into t default values;
        prepare transaction 'it''s left'";
    holder.batch_execute(prepare).await.unwrap();
    holder.batch_execute("begin isolation level repeatable read; select 1").await.unwrap();
    let row = holder.query_one("select pg_backend_pid()", &[]).await.unwrap();
    let pid: i32 = row.get(0);
    let report = examine_at(&server.url(), &["--held", "0"]).await.json();
    let terminate = format!("pg_terminate_backend({pid})");
    expect(
        &report,
        "vacuum horizon",
        "warning",
        &["reporting", "idle in transaction", &terminate, "rollback prepared", "'it''s left'"],
    );
    let report = examine_at(&server.url(), &[]).await.json();
    expect(&report, "vacuum horizon", "ok", &[]);
    server.stop().await.unwrap();
}

#[tokio::test]
async fn the_faults_of_a_whole_server_are_found() {
    let server = TestServer::own().await;
    let (client, connection) =
        tokio_postgres::connect(&server.url(), tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let off = ["alter system set autovacuum = off", "select pg_reload_conf()"];
    end(migrate_at(&server.url())).await.code(0);
    for statement in off {
        client.batch_execute(statement).await.unwrap();
    }
    postrider_testkit::wait_until("the setting holds", Duration::from_secs(30), async || {
        let report = examine_at(&server.url(), &[]).await.json();
        let (level, words) = told(&report, "autovacuum");
        (level == "problem" && words.contains("whole server")).then_some(()).ok_or(words)
    })
    .await;
    // Of 200 connections three are kept for superusers, as this one is.
    let mut crowd = Vec::new();
    for (count, level) in [(170, "warning"), (197, "problem")] {
        while crowd.len() < count {
            let connected = tokio_postgres::connect(&server.url(), tokio_postgres::NoTls).await;
            let (client, connection) = connected.unwrap();
            crowd.push((client, tokio::spawn(connection)));
            if crowd.len() + 3 >= 197 {
                break;
            }
        }
        let report = examine_at(&server.url(), &[]).await.json();
        expect(&report, "connections", level, &["of 197 are in use", "max_connections"]);
    }
    drop(crowd);
    let read_only =
        ["alter system set default_transaction_read_only = on", "select pg_reload_conf()"];
    for statement in read_only {
        client.batch_execute(statement).await.unwrap();
    }
    postrider_testkit::wait_until("the setting holds", Duration::from_secs(30), async || {
        let report = examine_at(&server.url(), &[]).await.json();
        let (level, words) = told(&report, "server");
        (level == "problem" && words.contains("read-only")).then_some(()).ok_or(words)
    })
    .await;
    server.stop().await.unwrap();
}

fn migrate_at(url: &str) -> Command {
    let mut command = command(&["migrate"]);
    command.env("DATABASE_URL", url);
    command
}

/// A pooler in front of a server, which ends with its value.
struct Pooler {
    _process: tokio::process::Child,
    directory: std::path::PathBuf,
    url: String,
}

impl Drop for Pooler {
    fn drop(&mut self) {
        // It is in the directory for temporary files anyway.
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

impl Pooler {
    async fn start(server: &str, mode: &str) -> Self {
        let config: tokio_postgres::Config = server.parse().unwrap();
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let directory = std::env::temp_dir().join(format!("postrider-pooler-{port}"));
        std::fs::create_dir_all(&directory).unwrap();
        let password = String::from_utf8_lossy(config.get_password().unwrap_or_default());
        let ini = format!(
            "[databases]\n* = host=127.0.0.1 port={} user={} password={password}\n\
             [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nauth_type = any\n\
             pool_mode = {mode}\nunix_socket_dir =\n",
            config.get_ports()[0],
            config.get_user().unwrap(),
        );
        let file = directory.join("pgbouncer.ini");
        std::fs::write(&file, ini).unwrap();
        let mut command = Command::new("pgbouncer");
        // It refuses to run as root.
        if nix::unistd::geteuid().is_root() {
            command.args(["-u", "nobody"]);
        }
        command.arg(&file).kill_on_drop(true);
        command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
        let process = command.spawn().unwrap_or_else(|error| panic!("pgbouncer: {error}"));
        let database = config.get_dbname().unwrap();
        let url = format!("postgres://anyone@127.0.0.1:{port}/{database}");
        let pooler = Self { _process: process, directory, url };
        postrider_testkit::wait_until("the pooler answers", Duration::from_secs(30), async || {
            let connected = tokio_postgres::connect(&pooler.url, tokio_postgres::NoTls).await;
            connected.map(|_| ()).map_err(|error| format!("{error:?}"))
        })
        .await;
        pooler
    }
}

#[tokio::test]
async fn a_pooler_is_named_by_its_mode_with_what_that_means() {
    let program = Program::migrated().await;
    for (mode, level, words, wake_up) in [
        ("transaction", "warning", "--poll-only", "warning"),
        ("statement", "problem", "pool_mode to transaction", "warning"),
        ("session", "ok", "keeps sessions", "ok"),
    ] {
        let pooler = Pooler::start(&program.db.url(), mode).await;
        let report = examine_at(&pooler.url, &[]).await.json();
        expect(&report, "pooler", level, &[words]);
        expect(&report, "wake-up", wake_up, &[]);
    }
}

#[tokio::test]
async fn an_instance_with_a_thousand_problems_lists_a_few_of_each() {
    let program = Program::migrated().await;
    let many = "insert into postrider.session
        (id, name, version, runs_relay, started_at, expires_at)
        select gen_random_uuid(), 'dead' || n, '0', true, now(), now() - interval '1 minute'
        from generate_series(1, 500) n";
    program.client.batch_execute(many).await.unwrap();
    let report = examine(&program).await;
    expect(&report, "dead processes", "problem", &["and 490 more"]);
}
