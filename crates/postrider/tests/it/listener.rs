//! The listening connection: how it is lost, and that nothing is missed meanwhile.

use std::time::Duration;

use postrider::{Database, Engine, EngineBuilder};
use postrider_testkit::{Proxy, wait_until};

use crate::fixture::{Fixture, PATIENCE};
use crate::support::{Seen, eager};

/// Long enough that nothing in these tests is found by looking without being woken.
const NEVER: Duration = Duration::from_secs(3600);

/// The backends that listen; none is ever asked for anything else than its heartbeat.
const LISTENERS: &str = "select pid::bigint from pg_stat_activity
    where datname = current_database() and application_name = 'postrider listen'
      and (query like 'listen %' or query like '-- Whether the connection lives%')";

/// Whether a relay sleeps on the bell, which it does only while it listens.
const ASLEEP: &str = "select count(*) from pg_locks l, postrider.wake_keys() k
    where l.locktype = 'advisory' and l.granted and l.objsubid = 1 and l.mode = 'ExclusiveLock'
      and l.database = (select oid from pg_database where datname = current_database())
      and (l.classid::bigint << 32) | l.objid::bigint = k.bell";

/// An engine at `url` that does nothing unless it is woken, and whose handler remembers.
fn sleepy(url: &str, seen: &Seen) -> EngineBuilder {
    Engine::builder(Database::new(url).unwrap().pool_size(16))
        .poll_interval(NEVER)
        .lease(NEVER)
        .subscribe(eager("s", &["a.b"], 3), seen.handler())
}

async fn listener(fixture: &Fixture) -> i64 {
    wait_until("one backend listens", PATIENCE, async || {
        let rows = fixture.client.query(LISTENERS, &[]).await.unwrap();
        match rows.as_slice() {
            [row] => Ok(row.get(0)),
            rows => Err(format!("{} do", rows.len())),
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listener_that_is_terminated_comes_back_and_finds_what_was_rung_meanwhile() {
    let mut fixture = Fixture::new().await;
    fixture.declare(&["a.b"]).await;
    let seen = Seen::default();
    let engine = sleepy(&fixture.db.url(), &seen).start().await.unwrap();
    fixture.wait_count(ASLEEP, 1).await;
    let first = listener(&fixture).await;
    // The writer rings, and nobody hears it.
    fixture
        .sql(&format!(
            "select pg_terminate_backend({first}::int, 10000); select postrider.record('a.b', 'x1')"
        ))
        .await;
    seen.wait_for(1).await;
    assert_ne!(listener(&fixture).await, first);
    fixture.wait_count(ASLEEP, 1).await;
    fixture.record("a.b", "x2").await;
    seen.wait_for(2).await;
    engine.shutdown().await;
    assert_eq!(seen.subjects("s"), ["x1", "x2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listener_whose_line_falls_silent_is_replaced_and_what_was_rung_meanwhile_is_found() {
    let mut fixture = Fixture::new().await;
    fixture.declare(&["a.b"]).await;
    let proxy = Proxy::to_database(&fixture.db.url()).await;
    let seen = Seen::default();
    let engine = sleepy(&proxy.url_through(&fixture.db.url()), &seen).start().await.unwrap();
    fixture.wait_count(ASLEEP, 1).await;
    proxy.blackhole();
    let before = proxy.accepted();
    fixture.record("a.b", "x").await;
    // Nothing was closed: only an answer that stays away can tell.
    wait_until("another connection is tried", PATIENCE, async || {
        let tried = proxy.accepted() - before;
        (tried > 0).then_some(()).ok_or("none is".to_owned())
    })
    .await;
    assert!(seen.runs().is_empty());
    proxy.restore();
    seen.wait_for(1).await;
    engine.shutdown().await;
    assert_eq!(seen.subjects("s"), ["x"]);
}
