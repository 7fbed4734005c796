//! Lines that fall silent without being closed, and servers that turn into others.

use std::time::Duration;

use postrider::{Database, Engine, Part};
use postrider_testkit::{Proxy, TestServer, wait_until};

use crate::fixture::{Fixture, PATIENCE, event_type};
use crate::gate::Gate;
use crate::health::{wait_ill, wait_nothing_left, wait_well};
use crate::support::{Seen, eager};

/// How long the database may be silent in these tests.
const LIMIT: Duration = Duration::from_secs(1);

#[tokio::test(flavor = "multi_thread")]
async fn every_loop_gives_up_a_silent_line_and_nothing_is_lost_once_it_speaks_again() {
    let mut fixture = Fixture::new().await;
    let proxy = Proxy::to_database(&fixture.db.url()).await;
    let (seen, gate) = (Seen::default(), Gate::closed());
    let url = format!("{}?connect_timeout=2", proxy.url_through(&fixture.db.url()));
    let engine = Engine::builder(Database::new(&url).unwrap().pool_size(16).answer_limit(LIMIT))
        .poll_interval(Duration::from_millis(100))
        .lease(Duration::from_secs(3600))
        .declare(event_type("a.b"))
        .subscribe(eager("s", &["a.b"], 50), seen.then(gate.handler()))
        .start()
        .await
        .unwrap();
    fixture.record("a.b", "x1").await;
    seen.wait_for(1).await;
    proxy.blackhole();
    // The handler ends while nobody can be told.
    gate.open();
    fixture.record("a.b", "x2").await;
    for part in [Part::Relay, Part::Claims, Part::Settles, Part::Rescue, Part::Listener] {
        wait_ill(&engine, part).await;
    }
    // The connections of before are never heard of again, only new ones are.
    proxy.cut();
    proxy.restore();
    wait_nothing_left(&fixture).await;
    wait_well(&engine).await;
    engine.shutdown().await;
    assert_eq!(seen.subjects("s").last().unwrap(), "x2");
}

#[tokio::test(flavor = "multi_thread")]
async fn b10_connections_that_stay_silent_for_good_are_replaced_by_new_ones() {
    let mut fixture = Fixture::new().await;
    // The engine's own connections go through a line that dies, those made later through another.
    let (dying, living) =
        (Proxy::to_database(&fixture.db.url()).await, Proxy::to_database(&fixture.db.url()).await);
    let base = fixture.db.url();
    let (credentials, rest) = base.split_once('@').unwrap();
    let (_, path) = rest.split_once('/').unwrap();
    let url = format!("{credentials}@{},{}/{path}", dying.address(), living.address());
    let seen = Seen::default();
    let database = Database::new(&url).unwrap().pool_size(16).answer_limit(LIMIT);
    let engine = Engine::builder(database)
        .poll_interval(Duration::from_millis(100))
        .declare(event_type("a.b"))
        .subscribe(eager("s", &["a.b"], 50), seen.handler())
        .start()
        .await
        .unwrap();
    fixture.record("a.b", "x1").await;
    seen.wait_for(1).await;
    assert_eq!(living.accepted(), 0);
    // Silent for those that are open, closed for new ones: as a host that died behind a router.
    dying.strand();
    fixture.record("a.b", "x2").await;
    seen.wait_for(2).await;
    wait_nothing_left(&fixture).await;
    wait_well(&engine).await;
    engine.shutdown().await;
    assert_eq!(seen.subjects("s"), ["x1", "x2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_without_an_answer_is_called_off_at_the_server() {
    let fixture = Fixture::new().await;
    let seen = Seen::default();
    let database = fixture.database().answer_limit(LIMIT);
    let engine = Engine::builder(database)
        .poll_interval(Duration::from_millis(100))
        .declare(event_type("a.b"))
        .subscribe(eager("s", &["a.b"], 50), seen.handler())
        .start()
        .await
        .unwrap();
    let other = fixture.db.client().await;
    let lock = "begin; lock table postrider.subscription in access exclusive mode";
    other.batch_execute(lock).await.unwrap();
    wait_ill(&engine, Part::Claims).await;
    let claims = "select count(*) from pg_stat_activity where datname = current_database()
        and wait_event_type = 'Lock' and query like '-- Claims due jobs%'";
    let backend = claims.replace("count(*)", "pid || ' since ' || query_start");
    // Claim after claim gives up; at no time do more than the one of the moment wait.
    for _ in 0..3 {
        let before = fixture.texts(&backend).await;
        wait_until("another claim waits than before", PATIENCE, async || {
            assert!(fixture.count(claims).await <= 1);
            let now = fixture.texts(&backend).await;
            (!now.is_empty() && now != before).then_some(()).ok_or(format!("{now:?}"))
        })
        .await;
    }
    other.batch_execute("rollback").await.unwrap();
    wait_well(&engine).await;
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_failover_the_server_that_takes_writes_is_found() {
    let (old, new) = (TestServer::own().await, TestServer::own().await);
    let (mut before, after) = (Fixture::on(&old).await, Fixture::on(&new).await);
    let name = before.db.name().to_owned();
    for fixture in [&before, &after] {
        fixture.declare(&["a.b"]).await;
        fixture.sql("create role app superuser login password 'app'").await;
    }
    // The new server knows the subscription, as a replica would.
    let declares = after.engine().subscribe(eager("s", &["a.b"], 50), |_| async {});
    declares.start().await.unwrap().shutdown().await;
    let rename = format!("alter database {} rename to {name}", after.db.name());
    let client = maintenance(&new.url()).await;
    drop(after);
    wait_renamed(&client, &rename).await;
    let url =
        format!("postgres://app:app@127.0.0.1:{},127.0.0.1:{}/{name}", old.port(), new.port());
    let seen = Seen::default();
    let engine = Engine::builder(Database::new(&url).unwrap().pool_size(16))
        .poll_interval(Duration::from_millis(200))
        .subscribe(eager("s", &["a.b"], 50), seen.handler())
        .start()
        .await
        .unwrap();
    before.record("a.b", "old").await;
    seen.wait_for(1).await;
    before.sql("alter system set default_transaction_read_only = on").await;
    before.sql("select pg_reload_conf()").await;
    // The old server is still there and still answers.
    let there = maintenance(&new.url().replace("/postgres", &format!("/{name}"))).await;
    there.batch_execute("select postrider.record('a.b', 'new')").await.unwrap();
    seen.wait_for(2).await;
    wait_well(&engine).await;
    let left = "select count(*) from pg_stat_activity where usename = 'app' and state <> 'active'";
    before.wait_count(left, 0).await;
    engine.shutdown().await;
    assert_eq!(seen.subjects("s"), ["new", "old"]);
}

async fn maintenance(url: &str) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// A database is renamed once nobody is in it.
async fn wait_renamed(client: &tokio_postgres::Client, rename: &str) {
    wait_until("the database is renamed", PATIENCE, async || {
        client.batch_execute(rename).await.map_err(|error| error.to_string())
    })
    .await;
}
