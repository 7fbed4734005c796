//! `postrider record`.

use crate::program::Program;

async fn with_types() -> Program {
    let program = Program::migrated().await;
    program.ok(&["types", "declare", "order.placed", "order.paid"]).await;
    program
}

#[tokio::test]
async fn one_event_is_recorded_as_it_was_given() {
    let program = with_types().await;
    let arguments = [
        "record",
        "order.placed",
        "order:42",
        "--data",
        r#"{"amount": 12.50}"#,
        "--key",
        "k",
        "--tenant",
        "acme",
        "--header",
        "a=b=c",
        "--json",
    ];
    let id = program.ok(&arguments).await.json()["id"].as_str().unwrap().to_owned();
    let shown = program.ok(&["events", "show", &id, "--json"]).await;
    assert!(shown.out.contains("12.50"), "the digits are kept: {shown:?}");
    let event = &shown.json()["event"];
    assert_eq!((&event["type"], &event["subject"]), (&"order.placed".into(), &"order:42".into()));
    assert_eq!((&event["key"], &event["tenant"]), (&"k".into(), &"acme".into()));
    assert_eq!(event["headers"]["a"], "b=c");
    let id = program.ok(&["record", "order.paid", "o:1"]).await.out;
    program.ok(&["events", "show", id.trim()]).await.says("order.paid").says("owed");
}

#[tokio::test]
async fn data_comes_from_standard_input_too_and_an_id_makes_repeating_harmless() {
    let program = with_types().await;
    let id = "01990f6e-6a3c-7cc1-8b1e-3d2f5a6b7c8d";
    let arguments = ["record", "order.paid", "o:1", "--data", "-", "--id", id];
    for _ in 0..2 {
        assert_eq!(program.feed(&arguments, "[1, 2]").await.code(0).out.trim(), id);
    }
    assert_eq!(program.count("select count(*) from postrider.event").await, 1);
    program.feed(&arguments, "[3]").await.code(1).complains("other content");
}

#[tokio::test]
async fn an_undeclared_type_names_the_nearest_ones() {
    let program = with_types().await;
    let ended = program.run(&["record", "order.plced", "o:1"]).await.code(1);
    ended.complains("error: type: order.plced is not declared").complains("order.placed");
}

#[tokio::test]
async fn data_that_only_the_database_refuses_is_exit_code_2_too() {
    let program = with_types().await;
    let arguments = ["record", "order.paid", "o:1", "--data", "1e999999"];
    program.run(&arguments).await.code(2).complains("error: ");
    let large = format!("\"{}\"", "x".repeat(300_000));
    program.feed(&["record", "order.paid", "o:1", "--data", "-"], &large).await.code(2);
}

fn lines(count: usize) -> Vec<String> {
    let line = |n| format!(r#"{{"type":"order.paid","subject":"o:{n}","data":{{"n":{n}}}}}"#);
    (1..=count).map(line).collect()
}

#[tokio::test]
async fn ndjson_is_recorded_in_order_in_batches() {
    let program = with_types().await;
    let mut lines = lines(25);
    lines.insert(7, "   ".to_owned());
    let input = lines.join("\n");
    let ended = program.feed(&["record", "--ndjson", "--batch", "10", "--json"], &input).await;
    let done = ended.code(0).json();
    assert_eq!((&done["recorded"], &done["batches"]), (&25.into(), &3.into()));
    assert_eq!(done["through_line"], 26);
    let subjects: String = program
        .client
        .query_one("select string_agg(subject, ' ' order by seq) from postrider.event", &[])
        .await
        .unwrap()
        .get(0);
    let expected: Vec<String> = (1..=25).map(|n| format!("o:{n}")).collect();
    assert_eq!(subjects, expected.join(" "));
    let transactions = "select count(distinct xmin::text) from postrider.event";
    assert_eq!(program.count(transactions).await, 3);
}

#[tokio::test]
async fn a_bad_line_is_named_and_nothing_of_its_batch_is_recorded() {
    let bad_lines = [
        ("{", "is no JSON"),
        (r#"{"type":"order.paid"}"#, "missing field `subject`"),
        (r#"{"type":"order.paid","subject":""}"#, "subject: is empty"),
        (r#"{"type":"order.payd","subject":"s"}"#, "order.payd is not declared"),
        // What only PostgreSQL can find out.
        (r#"{"type":"order.paid","subject":"s","data":{"t":"\u0000"}}"#, "NUL"),
        (r#"{"type":"order.paid","subject":"s","data":{"t":"\ud800"}}"#, "surrogate"),
        (r#"{"type":"order.paid","subject":"s","extra":1}"#, "unknown field `extra`"),
    ];
    for (bad, words) in bad_lines {
        let program = with_types().await;
        let mut lines = lines(25);
        lines[16] = bad.to_owned();
        let input = lines.join("\n");
        let ended = program.feed(&["record", "--ndjson", "--batch", "10"], &input).await.code(1);
        let ended = ended.complains("error: line 17: ").complains(words);
        ended.complains("hint: lines 1 to 10 are recorded").complains("go on from line 11");
        assert_eq!(program.count("select count(*) from postrider.event").await, 10, "{bad}");
    }
}

#[tokio::test]
async fn ndjson_comes_from_a_file_and_may_carry_bytes() {
    let program = with_types().await;
    let line = r#"{"type":"order.paid","subject":"s","body":"00ff","content_type":"image/png"}"#;
    let file = std::env::temp_dir().join(format!("postrider-{}.ndjson", program.db.name()));
    std::fs::write(&file, format!("{line}\n")).unwrap();
    let path = file.to_str().unwrap();
    program.ok(&["record", "--ndjson", path]).await.says("recorded 1 events in 1 transaction");
    std::fs::remove_file(&file).unwrap();
    let shown = program.ok(&["events", "show", "1", "--json"]).await.json();
    assert_eq!(shown["event"]["body"], "00ff");
    program.run(&["record", "--ndjson", path]).await.code(2).complains("cannot be read");
}
