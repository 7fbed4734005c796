//! `postrider tail`.

use nix::sys::signal::Signal;
use postrider_testkit::wait_until;

use crate::program::{PATIENCE, Program};

const COMPLETED: &str = "select count(*) from postrider.job_history where state = 'completed'";

async fn with_types() -> Program {
    let program = Program::migrated().await;
    program.ok(&["types", "declare", "order.placed", "order.paid"]).await;
    program
}

#[tokio::test]
async fn it_prints_what_another_process_records_and_goes_on_with_the_next_run() {
    let program = with_types().await;
    let tail = ["tail", "--subscription", "debug", "--type", "order.*"];
    let mut first = program.start(&tail);
    first.wait_for("following `debug`").await;
    program.ok(&["record", "order.placed", "o:1", "--data", r#"{"n": 1.0}"#]).await;
    let line = first.wait_for("o:1").await;
    assert!(line.contains(r#""data":{"n": 1.0}"#), "{line}");
    let event: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!((&event["type"], &event["seq"]), (&"order.placed".into(), &1.into()));
    program.wait_for_count("it is settled", COMPLETED, 1).await;
    first.signal(Signal::SIGTERM);
    assert_eq!(first.exit_code().await, 0);
    // What comes while nobody follows waits; what was printed does not come again.
    program.ok(&["record", "order.paid", "o:2"]).await;
    let second = program.start(&["tail", "-s", "debug"]);
    second.wait_for("o:2").await;
    assert_eq!(second.out().len(), 1);
}

#[tokio::test]
async fn a_command_that_fails_is_tried_again_and_its_words_are_kept() {
    let program = with_types().await;
    let script = r#"read -r event
        test "$POSTRIDER_EVENT_ATTEMPT" -gt 1 || { echo "no mail today" >&2; exit 7; }
        echo "$POSTRIDER_EVENT_TYPE $POSTRIDER_EVENT_SUBJECT $POSTRIDER_EVENT_ID $event""#;
    let create = ["subscriptions", "create", "mail", "--type", "order.placed", "--backoff", "10ms"];
    program.ok(&create).await;
    let mut tail = program.start(&["tail", "-s", "mail", "--exec", script]);
    let id = program.ok(&["record", "order.placed", "o:1"]).await.out.trim().to_owned();
    let line = tail.wait_for("order.placed o:1").await;
    assert!(line.contains(&format!("{id} {{\"id\":\"{id}\"")), "{line}");
    program.wait_for_count("it is settled", COMPLETED, 1).await;
    let job = program.ok(&["jobs", "show", "1", "--json"]).await.json();
    assert_eq!((&job["state"], &job["attempt"]), (&"completed".into(), &2.into()));
    let attempts = job["attempts"].as_array().unwrap();
    assert_eq!(attempts.len(), 2);
    assert_eq!(attempts[0]["error"], "exit code 7: no mail today");
    assert_eq!(attempts[0]["outcome"], "retry");
    assert_eq!(attempts[1]["outcome"], "completed");
    tail.signal(Signal::SIGINT);
    assert_eq!(tail.exit_code().await, 0);
}

#[tokio::test]
async fn exit_code_65_discards_the_job_for_good() {
    let program = with_types().await;
    let command = "echo broken for good >&2; exit 65";
    let tail = program.start(&["tail", "-s", "x", "--type", "order.paid", "--exec", command]);
    tail.wait_for("following").await;
    program.ok(&["record", "order.paid", "o:1"]).await;
    let discarded = "select count(*) from postrider.job_history where state = 'discarded'";
    program.wait_for_count("it is discarded", discarded, 1).await;
    program
        .ok(&["jobs", "list", "--state", "discarded"])
        .await
        .says("exit code 65: broken for good");
}

#[tokio::test]
async fn a_command_that_takes_too_long_is_killed_with_what_it_started() {
    let program = with_types().await;
    program
        .ok(&["subscriptions", "create", "slow", "--type", "order.paid", "--timeout-ms", "300"])
        .await;
    let tail = program.start(&["tail", "-s", "slow", "--exec", "sleep 4711 & echo pid $!; wait"]);
    program.ok(&["record", "order.paid", "o:1"]).await;
    let line = tail.wait_for("pid ").await;
    let pid: i32 = line.trim_start_matches("pid ").parse().unwrap();
    wait_until("the child of the command is gone", PATIENCE, async || {
        let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // A zombie has ended, too; nobody may be there to collect it.
        let gone = state.is_empty() || state.contains(") Z ");
        gone.then_some(()).ok_or(state)
    })
    .await;
    program
        .wait_for_count("the attempt is kept", "select count(*) from postrider.job_attempt", 1)
        .await;
    program.ok(&["jobs", "list"]).await.says("longer than 300 ms");
}

#[tokio::test]
async fn a_closed_pipe_ends_it_and_the_event_goes_to_the_next_one() {
    let program = with_types().await;
    program.ok(&["subscriptions", "create", "x", "--type", "order.paid"]).await;
    let mut command = program.command(&["tail", "-s", "x"]);
    let mut child = command.spawn().unwrap();
    drop(child.stdout.take());
    program.ok(&["record", "order.paid", "o:1"]).await;
    let output = tokio::time::timeout(PATIENCE, child.wait_with_output()).await.unwrap().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let next = program.start(&["tail", "-s", "x"]);
    next.wait_for("o:1").await;
}

#[tokio::test]
async fn a_subscription_is_used_as_it_is_and_not_changed_in_passing() {
    let program = with_types().await;
    let create = [
        "subscriptions",
        "create",
        "x",
        "--type",
        "order.paid",
        "--filter",
        "$.data.n > 1",
        "--max-attempts",
        "3",
    ];
    program.ok(&create).await;
    let before = program.ok(&["subscriptions", "list", "--json"]).await.json();
    let ended = program.run(&["tail", "-s", "x", "--type", "order.placed"]).await.code(1);
    ended.complains("wants other types: order.paid");
    let tail = program.start(&["tail", "-s", "x", "--type", "order.paid"]);
    tail.wait_for("following").await;
    program.ok(&["record", "order.paid", "no", "--data", r#"{"n": 1}"#]).await;
    program.ok(&["record", "order.paid", "yes", "--data", r#"{"n": 2}"#]).await;
    tail.wait_for("yes").await;
    assert_eq!(tail.out().len(), 1);
    let after = program.ok(&["subscriptions", "list", "--json"]).await.json();
    for field in ["filter", "policy", "globs", "version"] {
        assert_eq!(before[0][field], after[0][field], "{field}");
    }
    program.run(&["tail", "-s", "y"]).await.code(1).complains("--type GLOB");
    program
        .run(&["tail", "-s", "y", "--type", "oder.*"])
        .await
        .code(1)
        .complains("no declared type");
}
