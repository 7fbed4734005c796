//! `postrider serve`.

use nix::sys::signal::Signal;

use crate::program::Program;

const FANNED: &str = "select count(*) from postrider.fanout";

#[tokio::test]
async fn it_fans_out_what_is_recorded_and_ends_in_order_at_sigterm() {
    let program = Program::migrated().await;
    program.ok(&["types", "declare", "order.placed"]).await;
    program.ok(&["subscriptions", "create", "mail", "--type", "order.*"]).await;
    let mut serve = program.start(&["serve"]);
    serve.wait_for("ready: ").await;
    program.ok(&["record", "order.placed", "o:1"]).await;
    program.wait_for_count("the event is fanned out", FANNED, 1).await;
    let jobs = program.ok(&["jobs", "list", "--json"]).await.json();
    assert_eq!(jobs["items"][0]["subscription"], "mail");
    serve.signal(Signal::SIGTERM);
    assert_eq!(serve.exit_code().await, 0);
    let stopped = "select count(*) from postrider.session where end_reason = 'stopped'";
    assert_eq!(program.count(stopped).await, 1);
}

#[tokio::test]
async fn it_migrates_when_told_to_and_says_that_it_is_ready_in_one_line_of_json() {
    let program = Program::empty().await;
    let mut serve = program.start(&["serve", "--migrate", "--json", "--poll-only"]);
    serve.wait_for("ready").await;
    let out = serve.out();
    let ready: serde_json::Value = serde_json::from_str(&out[0]).unwrap();
    assert_eq!(
        (out.len(), &ready["ready"], &ready["schema"]),
        (1, &true.into(), &"postrider".into())
    );
    serve.signal(Signal::SIGINT);
    assert_eq!(serve.exit_code().await, 0);
}

#[tokio::test]
async fn a_pool_that_is_too_small_is_refused_with_the_arithmetic() {
    let program = Program::migrated().await;
    let ended = program.run(&["serve", "--pool-size", "2"]).await.code(2);
    ended.complains("the pool has 2 connections").complains("hint: ");
}
