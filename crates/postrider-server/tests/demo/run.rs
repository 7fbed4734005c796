//! Whole runs.

use postrider_testkit::TestDatabase;
use serde_json::json;

use crate::stage::{all_gone, count, ended, schemas};

#[tokio::test(flavor = "multi_thread")]
async fn chaos_kills_workers_with_jobs_running_and_nothing_is_lost_invented_or_doubled() {
    let database = TestDatabase::create().await;
    let client = database.client().await;
    client
        .batch_execute("create table theirs (x int); insert into theirs values (1)")
        .await
        .unwrap();
    let ended = ended(&database, "--events 600 --rate 200 --chaos --json").await;
    assert_eq!(ended.code(), Some(0), "{ended:#?}");
    let verdict = ended.json();
    for (field, wanted) in [
        ("recorded", 600),
        ("fanned_out", 600),
        ("lost", 0),
        ("duplicate_fanouts", 0),
        ("phantom", 0),
        ("ledger_mismatch", 0),
    ] {
        assert_eq!(verdict[field], json!(wanted), "{field} in {verdict}");
    }
    let least = [
        ("rolled_back", 1),
        ("jobs", 600),
        ("handled", 600),
        ("kills", 1),
        ("running_at_kill", 1),
        ("rescued", 1),
        ("retries", 1),
        ("late_commits", 1),
    ];
    for (field, least) in least {
        assert!(verdict[field].as_i64() >= Some(least), "{field} in {verdict}");
    }
    assert!(verdict["seconds"].as_f64() > Some(1.0), "{verdict}");
    assert_eq!(verdict["jobs"], verdict["handled"]);
    assert!(ended.errors.contains("was killed (SIGKILL) with"), "{ended:#?}");
    assert!(!ended.errors.contains('\x1b'), "no terminal, no drawing: {ended:#?}");
    assert_eq!(schemas(&client).await, 0);
    all_gone(&client).await;
    assert_eq!(count(&client, "select count(*) from theirs").await, 1);
    database.drop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_json_the_verdict_is_a_text_for_people() {
    let database = TestDatabase::create().await;
    let ended = ended(&database, "--events 1 --producers 1").await;
    assert_eq!(ended.code(), Some(0), "{ended:#?}");
    assert!(ended.output.contains("Nothing was lost, nothing was invented"), "{ended:#?}");
    assert!(ended.errors.contains("The shop records 1 event from 1 connection;"), "{ended:#?}");
    database.drop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn out_of_time_it_says_what_is_missing_and_still_cleans_up() {
    let database = TestDatabase::create().await;
    let client = database.client().await;
    let ended = ended(&database, "--events 100000 --rate 50 --give-up-after 1 --json").await;
    assert_eq!(ended.code(), Some(1), "{ended:#?}");
    assert!(ended.errors.contains("of 100,000 events are recorded"), "{ended:#?}");
    assert_eq!(ended.output, "");
    assert_eq!(schemas(&client).await, 0);
    database.drop().await;
}
