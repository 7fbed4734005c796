//! `postrider types`, `subscriptions`, `events` and `jobs`.

use crate::program::Program;

#[tokio::test]
async fn types_are_declared_listed_and_versioned() {
    let program = Program::migrated().await;
    program.ok(&["types", "list"]).await.says("no type is declared yet");
    let declare = ["types", "declare", "order.placed", "--description", "An order was placed."];
    program.ok(&declare).await.says("declared order.placed (internal)");
    program.ok(&declare).await.says("declared like this already");
    let newer = ["types", "declare", "order.placed", "--external", "--version", "3", "--json"];
    let declared = program.ok(&newer).await.json();
    assert_eq!(
        (&declared[0]["result"], &declared[0]["exposure"]),
        (&"declared".into(), &"external".into())
    );
    assert_eq!(declared[0]["description"], "An order was placed.");
    // Repeating the command withdraws nothing; that has a flag of its own.
    let again = ["types", "declare", "order.placed", "--version", "3"];
    program.ok(&again).await.says("declared like this already");
    let internal = [&again[..], &["--internal"]].concat();
    program.ok(&internal).await.says("declared order.placed (internal)");
    program.ok(&[&again[..], &["--external"]].concat()).await.says("(external)");
    program.run(&[&internal[..], &["--external"]].concat()).await.code(2);
    let ended = program.run(&["types", "declare", "order.placed", "--version", "2"]).await.code(1);
    ended.complains("stands at version 3").complains("--version 3");
    program.ok(&["types", "list"]).await.says("TYPE").says("external  3");
    let listed = program.ok(&["types", "list", "--json"]).await.json();
    assert_eq!((&listed[0]["name"], &listed[0]["version"]), (&"order.placed".into(), &3.into()));
}

#[tokio::test]
async fn subscriptions_are_created_listed_paused_resumed_and_deleted() {
    let program = Program::migrated().await;
    program.ok(&["types", "declare", "order.placed", "order.paid"]).await;
    let create = ["subscriptions", "create", "mail", "--type", "order.*"];
    program.ok(&create).await.says("created mail: order.paid, order.placed");
    program.run(&create).await.code(1).complains("there is a subscription `mail` already");
    let ended = program.run(&["subscriptions", "create", "x", "--type", "oder.*"]).await.code(1);
    ended.complains("the glob `oder.*` matches no declared type").complains("types declare");
    let filter = ["subscriptions", "create", "x", "--type", "**", "--filter", "$.data >"];
    program
        .run(&filter)
        .await
        .code(2)
        .complains("is no JSON path")
        .complains("$.data.amount > 100");
    program.ok(&["subscriptions", "pause", "mail"]).await.says("paused mail");
    program.ok(&["subscriptions", "list"]).await.says("mail  paused  0");
    let listed = program.ok(&["subscriptions", "list", "--json"]).await.json();
    assert_eq!(listed.as_array().unwrap().len(), 1);
    assert!(listed[0]["paused_at"].is_string());
    assert_eq!(listed[0]["lag"]["waiting"]["at_least"], 0);
    program.ok(&["subscriptions", "resume", "mail"]).await.says("resumed mail");
    let deleted = program.ok(&["subscriptions", "delete", "mail", "--json"]).await.json();
    assert_eq!(deleted["result"], "deleted");
    for verb in ["pause", "resume", "delete"] {
        let ended = program.run(&["subscriptions", verb, "mail"]).await.code(1);
        ended.complains("error: there is no subscription `mail`");
    }
}

#[tokio::test]
async fn an_empty_list_says_whether_anything_was_asked_for() {
    let program = Program::migrated().await;
    program.ok(&["events", "list"]).await.says("no event yet");
    program.ok(&["events", "list", "--since", "1h"]).await.says("no event matches");
    program.ok(&["jobs", "list"]).await.says("no job yet");
    program.ok(&["jobs", "list", "--queue", "q"]).await.says("no job matches");
    let ended = program.run(&["jobs", "list", "--subscription", "nope"]).await.code(1);
    ended.complains("error: there is no subscription `nope`");
}

/// Three events: fanned out to `mail`, poisoned, owed.
async fn with_events() -> Program {
    let program = Program::migrated().await;
    program.ok(&["types", "declare", "order.placed", "order.paid"]).await;
    program.ok(&["subscriptions", "create", "mail", "--type", "order.*"]).await;
    let serve = program.start(&["serve"]);
    serve.wait_for("ready").await;
    program.ok(&["record", "order.placed", "o:1", "--tenant", "acme"]).await;
    program.wait_for_count("it is fanned out", "select count(*) from postrider.fanout", 1).await;
    drop(serve);
    program.ok(&["record", "order.paid", "o:2"]).await;
    program.ok(&["record", "order.paid", "o:3"]).await;
    let poison = "
      with taken as (delete from postrider.owed where seq = 2 returning seq, occurred_at)
      insert into postrider.fanout_failure
        (seq, occurred_at, tenant, key, attempts, poisoned_at, last_error)
      select seq, occurred_at, '', 'o:2', 5, now(), 'it never works' from taken";
    program.client.batch_execute(poison).await.unwrap();
    program
}

fn seqs(page: &serde_json::Value) -> Vec<i64> {
    page["items"].as_array().unwrap().iter().map(|event| event["seq"].as_i64().unwrap()).collect()
}

#[tokio::test]
async fn events_are_listed_by_what_became_of_them() {
    let program = with_events().await;
    let lists: [(&[&str], &[i64]); 9] = [
        (&[], &[3, 2, 1]),
        (&["--state", "owed"], &[3]),
        (&["--state", "poisoned"], &[2]),
        (&["--state", "failing"], &[]),
        (&["--state", "fanned_out"], &[1]),
        (&["--type", "**.paid"], &[3, 2]),
        (&["--tenant", "acme", "--since", "1h"], &[1]),
        (&["--subject", "o:3"], &[3]),
        (&["--before", "3"], &[2, 1]),
    ];
    for (filters, expected) in lists {
        let arguments = [&["events", "list", "--json"], filters].concat();
        assert_eq!(seqs(&program.ok(&arguments).await.json()), expected, "{filters:?}");
    }
    let page = program.ok(&["events", "list", "--json", "--limit", "2"]).await.json();
    assert_eq!((seqs(&page), &page["next"]), (vec![3, 2], &2.into()));
    program.ok(&["events", "list", "--limit", "2"]).await.says("more: --before 2");
    let all = program.ok(&["events", "list", "--limit", "3", "--json"]).await.json();
    assert!(all["next"].is_null());
    program.ok(&["events", "list"]).await.says("poisoned    5      it never works");
    program.run(&["events", "list", "--limit", "1001"]).await.code(2);
}

#[tokio::test]
async fn an_event_shows_which_subscription_got_which_job() {
    let program = with_events().await;
    let shown = program.ok(&["events", "show", "1", "--json"]).await.json();
    assert_eq!(
        (&shown["state"], &shown["jobs"][0]["subscription"]),
        (&"fanned_out".into(), &"mail".into())
    );
    assert_eq!(shown["jobs"][0]["state"], "pending");
    program.ok(&["events", "show", "1"]).await.says("SUBSCRIPTION").says("acme");
    let poisoned = program.ok(&["events", "show", "2", "--json"]).await.json();
    assert_eq!(poisoned["failure"]["attempts"], 5);
    program.run(&["events", "show", "99"]).await.code(1).complains("there is no event 99");
    program.run(&["events", "show", "x"]).await.code(2).complains("neither an id nor a seq");
}

#[tokio::test]
async fn a_poisoned_event_is_requeued_and_then_fanned_out_or_skipped_for_good() {
    let program = with_events().await;
    let refused = program.run(&["events", "requeue", "1", "--json"]).await.code(1);
    assert_eq!(refused.json()["state"], "fanned_out");
    program.run(&["events", "skip", "3"]).await.code(1).complains("it is owed");
    program.run(&["events", "requeue", "99"]).await.code(1).complains("there is no event 99");
    let done = program.ok(&["events", "requeue", "2", "--json"]).await.json();
    assert_eq!(done["result"], "requeued");
    program.ok(&["events", "list", "--state", "failing"]).await.says("o:2");
    program.ok(&["events", "skip", "2"]).await.says("skipped event 2");
    program.run(&["events", "skip", "2"]).await.code(1).complains("skipped already");
    program.ok(&["events", "list", "--state", "skipped"]).await.says("o:2");
}

#[tokio::test]
async fn jobs_are_listed_cancelled_and_retried() {
    let program = with_events().await;
    let jobs = program.ok(&["jobs", "list", "--json"]).await.json();
    assert_eq!(
        (&jobs["items"][0]["id"], &jobs["items"][0]["state"]),
        (&1.into(), &"pending".into())
    );
    assert_eq!(jobs["items"][0]["subject"], "o:1");
    program.ok(&["jobs", "show", "1"]).await.says("order.placed about o:1").says("0/20");
    program.ok(&["jobs", "retry", "1"]).await.says("due already");
    program.ok(&["jobs", "cancel", "1"]).await.says("cancelled job 1");
    program.run(&["jobs", "cancel", "1"]).await.code(1).complains("cancelled already");
    program
        .ok(&["jobs", "list", "--state", "cancelled", "--subscription", "mail"])
        .await
        .says("o:1");
    let revived = program.ok(&["jobs", "retry", "1", "--json"]).await.json();
    assert_eq!(revived["result"], "revived");
    program.ok(&["jobs", "list", "--state", "cancelled"]).await.says("no job matches");
    for (verb, code) in [("show", 1), ("retry", 1), ("cancel", 1)] {
        program.run(&["jobs", verb, "99"]).await.code(code).complains("there is no job 99");
    }
}
