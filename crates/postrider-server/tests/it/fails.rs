//! Exit codes and messages of what cannot work.

use crate::program::{Program, command, end};

#[tokio::test]
async fn an_unreachable_database_is_exit_code_3() {
    let url = "postgres://somebody:secret@127.0.0.1:1/nowhere";
    for arguments in [vec!["types", "list"], vec!["migrate"], vec!["serve"], vec!["doctor"]] {
        let mut command = command(&arguments);
        command.env("DATABASE_URL", url);
        let ended = end(command).await.code(3).complains("error: no PostgreSQL answers at");
        let ended = ended.complains("hint: ");
        assert!(!ended.err.contains("secret"), "{ended:?}");
        assert_eq!(ended.out, "");
    }
}

#[tokio::test]
async fn a_url_that_is_none_and_no_url_at_all_are_exit_code_2() {
    let ended = end(command(&["types", "list", "--database-url", "postgres//x"])).await;
    ended.code(2).complains("error: the database URL").complains("hint: ");
    for (command_name, url) in [("doctor", "foo"), ("doctor", "mysql://h/d?a=b"), ("demo", "foo")] {
        let ended = end(command(&[command_name, "--database-url", url])).await.code(2);
        ended.complains("error: ").complains("it does not begin with postgres://");
    }
    // Keys and values as libpq takes them: nobody answers, so they were read.
    let keys = "host=127.0.0.1 port=1 user=u dbname=d";
    end(command(&["types", "list", "--database-url", keys])).await.code(3);
    end(command(&["types", "list"])).await.code(2).complains("DATABASE_URL");
    let no_name = ["types", "list", "--schema", "pg_x"];
    end(command(&no_name)).await.code(2).complains("begins with pg_");
}

#[tokio::test]
async fn a_database_that_is_not_there_and_a_wrong_password_are_exit_code_2() {
    let program = Program::empty().await;
    let url = program.db.url().replace(program.db.name(), "no_such_database");
    let ended = end(command(&["types", "list", "--database-url", &url])).await;
    ended.code(2).complains("refused the connection").complains("create the database");
}

#[tokio::test]
async fn a_missing_schema_is_exit_code_2_and_says_what_to_run() {
    let program = Program::empty().await;
    let commands: [&[&str]; 6] = [
        &["types", "list"],
        &["subscriptions", "pause", "x"],
        &["serve"],
        &["tail", "-s", "x", "--type", "**"],
        &["record", "a.b", "s"],
        &["events", "list"],
    ];
    for arguments in commands {
        let ended = program.run(arguments).await;
        ended.code(2).complains("error: ").complains("hint: run: postrider migrate\n");
    }
    let ended = program.run(&["types", "list", "--schema", "outbox"]).await.code(2);
    ended.complains("hint: run: postrider migrate --schema=outbox\n");
    let ended = program.run(&["doctor", "--schema", "it's"]).await.code(1);
    ended.says(r"-> run: postrider migrate --schema='it'\''s'");
    let ended = program.run(&["migrate", "--status", "--schema", "outbox"]).await.code(1);
    ended.says("(run: postrider migrate --schema=outbox)");
}

#[tokio::test]
async fn unknown_flags_and_commands_are_exit_code_2() {
    end(command(&["types", "list", "--frobnicate"])).await.code(2).complains("--frobnicate");
    end(command(&["frobnicate"])).await.code(2).complains("frobnicate");
    end(command(&[])).await.code(2).complains("Start here");
}

#[tokio::test]
async fn bad_input_is_refused_before_anything_is_connected() {
    let commands: [(&[&str], &str); 17] = [
        (&["types", "declare", "order..placed"], "empty segment"),
        (&["types", "declare", "postrider.x"], "reserved"),
        (&["types", "declare", "a.b", "--version", "0"], "--version"),
        (&["subscriptions", "create", "x y", "--type", "a"], "letters, digits"),
        (&["subscriptions", "create", "x", "--type", "a*"], "mixes"),
        (&["subscriptions", "create", "x", "--type", "a", "--backoff", "5"], "time span"),
        (&["subscriptions", "create", "x", "--type", "a", "--max-attempts", "0"], "max_attempts"),
        (&["record", "a.b", ""], "subject: is empty"),
        (&["record", "a.b", "s", "--data", "{x}"], "--data is no JSON"),
        (&["record", "a.b", "s", "--data", r#"{"a":"\u0000"}"#], "NUL"),
        (&["record", "a.b", "s", "--data", r#""\ud800""#], "surrogate"),
        (&["record", "a.b", "s", "--header", "a=1", "--header", "a=2"], "`a` is given twice"),
        (&["record", "a.b", "s", "--id", "123"], "a UUID looks like 01980000-"),
        (&["jobs", "show", "abc"], "a job id is a number"),
        (&["tail", "-s", "x", "--type", "a", "--exec", ""], "leave --exec out"),
        (&["tail", "-s", "x", "--type", "a", "--exec", " "], "leave --exec out"),
        (&["types", "declare", "a", "--internal", "--external"], "cannot be used with"),
    ];
    for (arguments, words) in commands {
        // There is no database there; exit code 3 would say that it was tried.
        let mut command = command(arguments);
        command.env("DATABASE_URL", "postgres://127.0.0.1:1/nowhere");
        end(command).await.code(2).complains(words);
    }
}

#[tokio::test]
async fn a_closed_pipe_is_no_failure() {
    let program = Program::migrated().await;
    let mut command = program.command(&["types", "list", "--json"]);
    let mut child = command.spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().await.unwrap();
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
    assert_eq!(output.status.code(), Some(0));
}

#[tokio::test]
async fn every_help_page_has_an_example_and_help_goes_to_standard_output() {
    for page in [&["record"][..], &["tail"], &["subscriptions", "create"], &["jobs", "retry"]] {
        let arguments: Vec<&str> = page.iter().copied().chain(["--help"]).collect();
        end(command(&arguments)).await.code(0).says("xample").says("postrider ");
    }
}

#[tokio::test]
async fn completions_name_the_commands() {
    for shell in ["bash", "zsh", "fish"] {
        end(command(&["completions", shell])).await.code(0).says("subscriptions");
    }
}
