//! Every hot statement reaches its rows through the index that it names, on tables that are filled
//! and analysed, on tables that were just made, under generic and under custom plans.

use std::collections::BTreeSet;

use postrider::{Schema, for_tests};
use serde_json::Value;
use tokio_postgres::Client;
use tokio_postgres::types::Type;

use crate::fixture::Fixture;
use crate::plans_fill::{ANALYZE, FILL};

/// A statement, arguments for it, and the indexes that its plan must use on filled tables; `*`
/// stands for the day of a partition.
type Case = (&'static str, &'static str, &'static [&'static str]);

const SESSION: &str = "00000000-0000-0000-0000-000000000001";

const CASES: &[Case] = &[
    ("fanout_batch", "100000, 200, 0", &["owed_pkey", "event_*_pkey"]),
    (
        "fanout_start",
        "100000, 200, 0, '{S}', '{1,2,3}', 64",
        &["owed_pkey", "event_*_pkey", "a_type_routes_once"],
    ),
    ("fanout_one", "7, 1, 0", &["fanout_failure_pkey", "event_*_pkey", "a_type_routes_once"]),
    (
        "claim_jobs",
        "'{S}', '{1,2,3}', 50, 0, '{-infinity,-infinity,epoch,epoch}'",
        &["job_due", "job_pkey", "event_*_pkey"],
    ),
    ("settle_completed", "'{1,2,3}', '{1,1,1}', '{null,null,null}', '{S}', 0", &["job_pkey"]),
    (
        "settle_discarded",
        "'{1,2}', '{1,1}', '{discarded,cancelled}', '{x,null}', '{S}', 0",
        &["job_pkey"],
    ),
    (
        "settle_pending",
        "'{1,2}', '{1,1}', '{0,5}', '{retry,snoozed}', '{x,null}', '{S}', 0",
        &["job_pkey"],
    ),
    ("lease_release", "'{1,2,3}'", &["job_pkey"]),
    ("rescue_jobs", "50, 0", &["job_pkey"]),
    ("session_renew", "'{S}', 15000000", &["job_pkey"]),
    ("session_bury", "", &[]),
    ("session_close", "'{S}'", &[]),
    ("session_others", "'{S}', 15000000", &[]),
    ("session_open", "'{S}', 'n', 'v', true, 15000000", &[]),
    ("session_live", "'{S}'", &[]),
    ("failure_claim", "2000000, 0, '{9}'", &["fanout_failure_due", "fanout_failure_pkey"]),
    ("failure_suspect", "100000, 2000000, 0", &["owed_pkey", "event_*_pkey"]),
    ("failure_note", "7, 1, 'x', 5, 0", &["fanout_failure_pkey"]),
    ("failure_refund", "'{7,8}'", &["fanout_failure_pkey"]),
    ("floor_probe", "", &[]),
    ("floor_settle", "100000", &["owed_pkey"]),
    (
        "handled",
        "'{S}', 's1'",
        &["event_*_id_idx", "fanout_*_pkey", "job_pkey", "job_completed_*_pkey"],
    ),
    ("fanned_out", "'{{S}}'", &["event_*_id_idx", "fanout_*_pkey"]),
    ("deleted_cancel", "1000, 0", &["job_due", "job_pkey"]),
    ("job_end", "77", &["job_pkey", "job_completed_*_pkey"]),
    (
        "unique_key_forget",
        "1000, 0",
        &["unique_key_looked", "unique_key_pkey", "job_pkey", "job_completed_*_pkey"],
    ),
    ("record_key_forget", "1000, 0", &["record_key_age", "record_key_pkey"]),
];

/// Statements that are not asked for each event or job, so that a plan for them proves nothing:
/// changes of subscriptions, what a person asks, and the maintenance that reads a small table or
/// the catalog.
const NOT_HOT: &[&str] = &[
    "bell_ring",
    "bulk_cancel",
    "bulk_count_finished",
    "bulk_count_unfinished",
    "bulk_hurry",
    "bulk_move",
    "bulk_purge",
    "bulk_revive",
    "claims_return",
    "clock",
    "doctor_backlog",
    "doctor_connections",
    "doctor_horizon",
    "doctor_partitions",
    "doctor_privileges",
    "doctor_server",
    "doctor_sessions",
    "doctor_vacuum",
    "event_day_drop",
    "event_find",
    "event_jobs",
    "event_kept_forget",
    "event_kept_look",
    "event_page_any",
    "event_page_failed",
    "event_page_owed",
    "event_read",
    "event_requeue",
    "event_skip",
    "filter_error",
    "history_day_drop",
    "job_attempts",
    "job_cancel",
    "job_hurry",
    "job_last_id",
    "job_one",
    "job_page",
    "job_revive",
    "partitions_make",
    "partitions_old",
    "privileges_missing",
    "periodic_delete",
    "periodic_due",
    "periodic_fire",
    "periodic_list",
    "periodic_note",
    "periodic_pause",
    "periodic_put",
    "periodic_resume",
    "periodic_run",
    "registration_put",
    "route_clear",
    "route_insert",
    "routing_bump",
    "routing_lock",
    "routing_share",
    "session_forget",
    "subscription_delete",
    "subscription_globs",
    "subscription_insert",
    "subscription_lag",
    "subscription_list",
    "subscription_pause",
    "subscription_update",
    "type_declare",
    "type_list",
];

/// Tables that grow with what is recorded: reading one as a whole is never right.
fn grows(table: &str) -> bool {
    let whole = ["owed", "job", "record_key", "unique_key", "fanout_failure"];
    let days = [
        "event_2",
        "event_default",
        "fanout_2",
        "fanout_default",
        "job_completed",
        "job_discarded",
        "job_attempt",
    ];
    whole.contains(&table) || days.iter().any(|prefix| table.starts_with(prefix))
}

/// What a plan reads: tables read as a whole, and indexes.
#[derive(Debug, Default)]
struct Reads {
    whole: BTreeSet<String>,
    indexes: BTreeSet<String>,
}

impl Reads {
    fn add(&mut self, node: &Value) {
        if node["Node Type"] == "Seq Scan" {
            self.whole.extend(node["Relation Name"].as_str().map(str::to_owned));
        }
        self.indexes.extend(node["Index Name"].as_str().map(str::to_owned));
        for child in node["Plans"].as_array().into_iter().flatten() {
            self.add(child);
        }
    }

    fn uses(&self, index: &str) -> bool {
        let (start, end) = index.split_once('*').unwrap_or((index, ""));
        match index.contains('*') {
            true => self.indexes.iter().any(|used| used.starts_with(start) && used.ends_with(end)),
            false => self.indexes.contains(index),
        }
    }
}

fn statements() -> Vec<(&'static str, String, &'static [Type])> {
    for_tests::statements(&Schema::default())
}

/// The plan of a statement that was prepared with its declared types.
async fn plan(
    client: &Client,
    text: &str,
    types: &[Type],
    arguments: &str,
    mode: &str,
) -> (Reads, String) {
    let types: Vec<&str> = types.iter().map(Type::name).collect();
    let (types, arguments) = match types.is_empty() {
        true => (String::new(), String::new()),
        false => (format!("({})", types.join(", ")), format!("({arguments})")),
    };
    client
        .batch_execute(&format!("set plan_cache_mode = {mode}; prepare p {types} as {text}"))
        .await
        .unwrap();
    let explain = format!("explain (format json) execute p{arguments}");
    let rows = client.query(&explain, &[]).await.unwrap();
    client.batch_execute("deallocate p").await.unwrap();
    let plan: Value = rows[0].get(0);
    let mut reads = Reads::default();
    reads.add(&plan[0]["Plan"]);
    (reads, format!("{plan:#}"))
}

/// Checks every case; `filled` tells whether the indexes must be used too.
async fn check(client: &Client, filled: bool) {
    let statements = statements();
    let mut problems = Vec::new();
    for (name, arguments, indexes) in CASES {
        let (_, text, types) = statements.iter().find(|(known, ..)| known == name).expect(name);
        let arguments = arguments.replace("{S}", SESSION);
        for mode in ["force_generic_plan", "force_custom_plan"] {
            let (reads, plan) = plan(client, text, types, &arguments, mode).await;
            let whole: Vec<_> = reads.whole.iter().filter(|table| grows(table)).collect();
            let unused: Vec<_> =
                indexes.iter().filter(|index| filled && !reads.uses(index)).collect();
            if !whole.is_empty() || !unused.is_empty() {
                let used = &reads.indexes;
                problems.push(format!(
                    "{name} under {mode} reads all of {whole:?}, does not use {unused:?}, \
                     uses {used:?}"
                ));
                if std::env::var_os("POSTRIDER_SHOW_PLANS").is_some() {
                    problems.push(plan);
                }
            }
        }
    }
    assert!(
        problems.is_empty(),
        "set POSTRIDER_SHOW_PLANS to see the plans:\n{}",
        problems.join("\n")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn on_filled_tables_every_hot_statement_uses_its_indexes() {
    let fixture = Fixture::new().await;
    fixture.client.batch_execute(FILL).await.unwrap();
    fixture.client.batch_execute(ANALYZE).await.unwrap();
    check(&fixture.client, true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn right_after_a_migration_no_hot_statement_reads_a_growing_table_as_a_whole() {
    let fixture = Fixture::new().await;
    check(&fixture.client, false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_statement_can_be_prepared_with_the_types_that_it_declares() {
    let fixture = Fixture::new().await;
    let statements = statements();
    for (name, text, types) in &statements {
        let prepared = fixture.client.prepare_typed(text, types).await;
        let prepared = prepared.unwrap_or_else(|error| panic!("{name}: {error:?}"));
        assert_eq!(prepared.params(), *types, "{name}");
    }
    let known: BTreeSet<&str> = statements.iter().map(|(name, ..)| *name).collect();
    let sorted: BTreeSet<&str> =
        CASES.iter().map(|(name, ..)| *name).chain(NOT_HOT.iter().copied()).collect();
    assert_eq!(known, sorted, "each statement is a case here, or is named as not hot");
}

/// The scans of tables of ours in the current transaction, which the functions made.
const SCANS: &str = "
    select relname::text, seq_scan, coalesce(idx_scan, 0) from pg_stat_xact_user_tables
    where schemaname = 'postrider' and (seq_scan > 0 or idx_scan > 0)";

#[tokio::test(flavor = "multi_thread")]
async fn the_functions_find_what_they_look_up_by_an_index() {
    let fixture = Fixture::new().await;
    for filled in [false, true] {
        if filled {
            fixture.client.batch_execute(FILL).await.unwrap();
            fixture.client.batch_execute(ANALYZE).await.unwrap();
        } else {
            fixture.declare(&["a.t1"]).await;
        }
        fixture.client.batch_execute("begin").await.unwrap();
        // More often than the five times after which PL/pgSQL may keep a generic plan.
        let record = "select postrider.record('a.t1', n::text, id => case n % 2 when 0 then
              ('00000000-0000-7000-8000-' || lpad((n / 4)::text, 12, '0'))::uuid end)
            from generate_series(1, 3) n";
        for _ in 0..8 {
            let taken = fixture.client.batch_execute("savepoint s").await;
            taken.unwrap();
            fixture.client.batch_execute(record).await.unwrap();
        }
        fixture.client.batch_execute("select postrider.complete(10, 1)").await.err();
        let scans = "rollback to savepoint s";
        fixture.client.batch_execute(scans).await.unwrap();
        let rows = fixture.client.query(SCANS, &[]).await.unwrap();
        fixture.client.batch_execute("rollback; truncate postrider.event_type").await.unwrap();
        let mut seen = BTreeSet::new();
        for row in &rows {
            let (table, whole, by_index): (String, i64, i64) = (row.get(0), row.get(1), row.get(2));
            assert!(
                whole == 0 || !grows(&table) && table != "event_type",
                "{table} was read as a whole"
            );
            if by_index > 0 {
                seen.insert(table);
            }
        }
        assert!(seen.contains("event_type") && seen.contains("record_key"), "{seen:?}");
    }
}
