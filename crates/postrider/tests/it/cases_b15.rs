//! Case B15: while an unrelated transaction keeps an old snapshot, claims and fan-outs go on at the
//! same cost. Judged by what is walked, not by time.

use postrider::{Database, Engine, Schema, for_tests};
use serde_json::Value;
use tokio_postgres::Client;

use crate::fixture::Fixture;
use crate::support::{Seen, eager};

/// Jobs of one subscription, due one after the other, a millisecond apart.
async fn with_jobs(count: i32) -> (Fixture, i32) {
    let fixture = Fixture::new().await;
    fixture.declare(&["a.b"]).await;
    let id = fixture.subscription("s", &["a.b"]).await;
    let sql = "with events as (
          insert into postrider.event (seq, occurred_at, id, tenant, type, subject, key, data)
          select n, now(), gen_random_uuid(), '', 'a.b', n::text, n::text, '{}'
          from generate_series(1, $1::integer) n returning seq, occurred_at)
        insert into postrider.job (event_seq, event_occurred_at, due_at, created_at,
          subscription_id, origin, priority, tenant)
        select seq, occurred_at, now() - ($1 - seq) * interval '1 millisecond', now(), $2,
          'fanout', 2, '' from events order by seq";
    fixture.client.execute(sql, &[&count, &id]).await.unwrap();
    fixture.sql("analyze postrider.job; analyze postrider.event").await;
    (fixture, id)
}

/// Somebody who has read one row, long ago, and stays.
async fn held_snapshot(fixture: &Fixture) -> Client {
    let holder = fixture.db.client().await;
    let held = "begin isolation level repeatable read; select from postrider.setting";
    holder.batch_execute(held).await.unwrap();
    holder
}

/// The buffers that a plan touched.
fn buffers(plan: &Value) -> i64 {
    let count = |name: &str| plan[0]["Plan"][name].as_i64().unwrap();
    count("Shared Hit Blocks") + count("Shared Read Blocks")
}

/// A worker by hand, which looks as the engine's worker does.
struct ByHand {
    claim: String,
    settle: String,
    subscription: i32,
}

impl ByHand {
    async fn new(fixture: &Fixture, subscription: i32) -> Self {
        let session = "insert into postrider.session
            (id, name, version, runs_relay, started_at, expires_at)
            values ('00000000-0000-4000-8000-000000000001', 'hand', '0', false, now(),
              now() + interval '1 hour')";
        fixture.sql(session).await;
        let statements = for_tests::statements(&Schema::default());
        let text =
            |name: &str| statements.iter().find(|(known, ..)| *known == name).unwrap().1.clone();
        Self { claim: text("claim_jobs"), settle: text("settle_completed"), subscription }
    }

    /// Claims 100 jobs due since `since` and settles them; gives the buffers of each, and since
    /// when to look the next time.
    async fn round(&self, client: &Client, since: &str) -> (i64, i64, String) {
        let session = "00000000-0000-4000-8000-000000000001";
        let claim = format!(
            "prepare claim (uuid, int[], bigint, bigint, timestamptz[]) as {};
             prepare settle (bigint[], bigint[], jsonb[], uuid, bigint) as {}",
            self.claim, self.settle
        );
        client.batch_execute(&claim).await.unwrap();
        let claim = format!(
            "explain (analyze, buffers, format json) execute claim('{session}', '{{{}}}', 100, 0,
               array_fill('{since}'::timestamptz, '{{4}}'))",
            self.subscription
        );
        let claimed: Value = client.query_one(&claim, &[]).await.unwrap().get(0);
        let held = "select array_agg(id)::text, array_agg(lease_token)::text,
              array_fill(null::jsonb, array[count(*)::int])::text,
              (min(due_at) - interval '25 milliseconds')::text, count(*)
            from postrider.job where state = 'running'";
        let row = client.query_one(held, &[]).await.unwrap();
        assert_eq!(row.get::<_, i64>(4), 100);
        let text = |column: usize| row.get::<_, String>(column);
        let settle = format!(
            "explain (analyze, buffers, format json) execute settle('{}', '{}', '{}',
               '{session}', 0)",
            text(0),
            text(1),
            text(2)
        );
        let settled: Value = client.query_one(&settle, &[]).await.unwrap().get(0);
        client.batch_execute("deallocate all").await.unwrap();
        (buffers(&claimed), buffers(&settled), text(3))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b15_claim_and_settle_touch_as_much_at_the_end_as_at_the_beginning() {
    let (fixture, subscription) = with_jobs(8_000).await;
    let holder = held_snapshot(&fixture).await;
    let worker = ByHand::new(&fixture, subscription).await;
    let client = fixture.db.client().await;
    let (first_claim, first_settle, mut since) = worker.round(&client, "epoch").await;
    let (mut last_claim, mut last_settle) = (0, 0);
    for _ in 1..80 {
        (last_claim, last_settle, since) = worker.round(&client, &since).await;
    }
    assert!(last_claim < first_claim * 2, "a claim: {first_claim} buffers, then {last_claim}");
    assert!(last_settle < first_settle * 2, "a settle: {first_settle}, then {last_settle}");
    holder.batch_execute("commit").await.unwrap();
}

/// How many entries of an index were read so far, dead ones included.
async fn walked(fixture: &Fixture, index: &str) -> i64 {
    let sql = format!(
        "select coalesce(sum(idx_tup_read), 0)::bigint from pg_stat_user_indexes
         where schemaname = 'postrider' and indexrelname = '{index}'"
    );
    fixture.count(&sql).await
}

#[tokio::test(flavor = "multi_thread")]
async fn b15_the_engine_does_not_walk_over_what_it_finished_again_and_again() {
    let (fixture, _) = with_jobs(6_000).await;
    let holder = held_snapshot(&fixture).await;
    let seen = Seen::default();
    let database = Database::new(&fixture.db.url()).unwrap().pool_size(8);
    // Small claims, so that walking over what is finished would show: 600 of them over 3,000 dead
    // entries each, twice.
    let engine = Engine::builder(database)
        .queue("default", 10)
        .subscribe(eager("s", &["a.b"], 3), seen.handler())
        .start()
        .await
        .unwrap();
    fixture.wait_finished().await;
    engine.shutdown().await;
    assert_eq!(seen.runs().len(), 6_000);
    let read = walked(&fixture, "job_due").await;
    assert!(read < 3_000_000, "{read} index entries for 6,000 jobs");
    holder.batch_execute("commit").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn b15_the_relay_does_not_walk_over_what_it_fanned_out_again_and_again() {
    let fixture = Fixture::new().await;
    fixture.declare(&["a.b"]).await;
    let holder = held_snapshot(&fixture).await;
    fixture.record_many("a.b", "x", 6_000).await;
    let engine = fixture.engine().relay_batch(10).start().await.unwrap();
    fixture.wait_fanned_out().await;
    engine.shutdown().await;
    let read = walked(&fixture, "owed_pkey").await;
    assert!(read < 600_000, "{read} index entries for 6,000 events");
    holder.batch_execute("commit").await.unwrap();
}
