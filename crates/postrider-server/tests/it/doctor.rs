//! `postrider doctor`.

use crate::program::Program;

fn verdict(report: &serde_json::Value, check: &str) -> String {
    let findings = report["findings"].as_array().unwrap();
    let found = findings.iter().find(|finding| finding["check"] == check);
    found.unwrap_or_else(|| panic!("no {check} in {report}"))["verdict"]
        .as_str()
        .unwrap()
        .to_owned()
}

#[tokio::test]
async fn a_missing_schema_fails_and_says_what_to_run() {
    let program = Program::empty().await;
    let ended = program.run(&["doctor"]).await.code(1);
    ended.says("fail  schema").says("-> run: postrider migrate").says("1 failure");
}

#[tokio::test]
async fn a_healthy_instance_is_well() {
    let program = Program::migrated().await;
    let serve = program.start(&["serve"]);
    serve.wait_for("ready").await;
    let report = program.ok(&["doctor", "--json"]).await.json();
    for check in
        ["connection", "schema", "processes", "backlog", "poisoned", "partitions", "pooler"]
    {
        assert_eq!(verdict(&report, check), "ok", "{check}: {report}");
    }
}

#[tokio::test]
async fn what_is_wrong_is_found() {
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
             insert into postrider.event (seq, occurred_at, id, tenant, type, subject, key, data)
               values (99, now() - interval '99 days', gen_random_uuid(), '', 'a', 's', 's', '{}');",
        )
        .await
        .unwrap();
    let report = program.run(&["doctor", "--json"]).await.code(1).json();
    assert_eq!(report["verdict"], "fail");
    for (check, expected) in [
        ("backlog", "fail"),
        ("poisoned", "fail"),
        ("processes", "warn"),
        ("dead processes", "warn"),
        ("subscriptions", "warn"),
        ("default partitions", "warn"),
    ] {
        assert_eq!(verdict(&report, check), expected, "{check}: {report}");
    }
}
