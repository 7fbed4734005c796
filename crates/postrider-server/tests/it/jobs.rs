//! `postrider jobs` for enqueued jobs, and `postrider periodic`.

use crate::program::Program;

#[tokio::test]
async fn kinds_are_declared_and_jobs_of_them_enqueued() {
    let program = Program::migrated().await;
    program.ok(&["jobs", "kinds"]).await.says("no kind is declared yet");
    let enqueue = ["jobs", "enqueue", "mail.receipt", "--arguments", "{\"order\": 1}"];
    let ended = program.run(&enqueue).await.code(1);
    ended.complains("kind: mail.receipt is not declared").complains("jobs declare");
    let declare = ["jobs", "declare", "mail.receipt", "--max-attempts", "5", "--version", "2"];
    program.ok(&declare).await.says("declared mail.receipt");
    program.ok(&declare).await.says("declared like this already");
    let older = program.run(&declare[..5]).await.code(1);
    older.complains("stands at version 2");
    program.ok(&enqueue).await.says("enqueued job 1");
    let unique = [&enqueue[..], &["--unique-by", "order", "--delay", "1h"]].concat();
    program.ok(&unique).await.says("enqueued job");
    program.ok(&unique).await.says("waits already and stands for it");
    program.ok(&["jobs", "kinds"]).await.says("mail.receipt  active  2");
    program.ok(&["jobs", "show", "1"]).await.says("{\"order\": 1}").says("0/5");
    program.ok(&["subscriptions", "list"]).await.says("a kind of jobs, which are enqueued");
    program.run(&[&enqueue[..4], &["{"]].concat()).await.code(2).complains("is no JSON");
    program.ok(&["subscriptions", "pause", "mail.receipt"]).await.says("paused mail.receipt");
}

#[tokio::test]
async fn many_jobs_are_acted_on_after_a_preview() {
    let program = Program::migrated().await;
    program.ok(&["jobs", "declare", "mail"]).await;
    let fill = "select postrider.enqueue('mail', delay => '1 h') from generate_series(1, 30)";
    program.client.batch_execute(fill).await.unwrap();
    let all = program.run(&["jobs", "bulk", "cancel"]).await.code(2);
    all.complains("nothing says which jobs are meant");
    let cancel = ["jobs", "bulk", "cancel", "--kind", "mail"];
    let preview = [&cancel[..], &["--dry-run"]].concat();
    program.ok(&preview).await.says("cancel would change 30 jobs");
    let moved = ["jobs", "bulk", "move", "--in", "2d", "--state", "scheduled", "--json"];
    assert_eq!(program.ok(&moved).await.json()["jobs"], 30);
    program.ok(&cancel).await.says("cancel: 30 jobs");
    program.ok(&["jobs", "bulk", "retry", "--all"]).await.says("retry: 30 jobs");
    let odd = ["jobs", "bulk", "purge", "--state", "running"];
    program.run(&odd).await.code(2).complains("it can be done to: completed");
}

#[tokio::test]
async fn periodic_jobs_are_declared_shown_paused_run_and_deleted() {
    let program = Program::migrated().await;
    program.ok(&["periodic", "list"]).await.says("there is no periodic job yet");
    let declare = ["periodic", "declare", "nightly", "report", "30 2 * * *"];
    program.run(&declare).await.code(1).complains("kind: report is not declared");
    program.ok(&["jobs", "declare", "report"]).await;
    program.ok(&declare).await.says("declared nightly");
    program.ok(&declare).await.says("declared like this already");
    for (option, value) in [("--time-zone", "Mars"), ("--catch-up", "twice")] {
        program.run(&[&declare[..], &[option, value]].concat()).await.code(2).complains(value);
    }
    let odd = ["periodic", "declare", "x", "report", "61 * * * *"];
    program.run(&odd).await.code(2).complains("is no cron expression");
    program.ok(&["periodic", "list"]).await.says("30 2 * * *").says("02:30:00Z");
    program.ok(&["periodic", "pause", "nightly"]).await.says("paused nightly");
    program.ok(&["periodic", "run", "nightly"]).await.says("enqueued job 1");
    let shown = program.ok(&["periodic", "show", "nightly", "--json"]).await.json();
    assert_eq!((&shown["last_job_id"], &shown["last_state"]), (&1.into(), &"pending".into()));
    program.ok(&["periodic", "resume", "nightly"]).await.says("resumed nightly");
    program.ok(&["periodic", "delete", "nightly"]).await.says("deleted nightly");
    for verb in ["show", "pause", "resume", "run", "delete"] {
        let ended = program.run(&["periodic", verb, "nightly"]).await.code(1);
        ended.complains("there is no periodic job `nightly`");
    }
}
