//! `postrider migrate`.

use std::collections::BTreeSet;

use tokio_postgres::Client;

use crate::program::{Program, command, end};

/// Everything that the schema consists of, as texts: columns, constraints, indexes, functions,
/// partitions, privileges, and what migrations wrote down.
async fn catalog(client: &Client, schema: &str) -> BTreeSet<String> {
    let sql = "
      select 'column ' || concat_ws(' ', c.relname, c.relkind, a.attname,
          format_type(a.atttypid, a.atttypmod), a.attnotnull,
          pg_get_expr(d.adbin, d.adrelid), c.reloptions::text, c.relacl::text)
        from pg_class c
        join pg_attribute a on a.attrelid = c.oid and a.attnum > 0
        left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
        where c.relnamespace = $1::text::regnamespace
      union all
      select 'constraint ' || concat_ws(' ', conrelid::regclass, conname, pg_get_constraintdef(oid))
        from pg_constraint where connamespace = $1::text::regnamespace
      union all
      select 'index ' || indexdef from pg_indexes where schemaname = $1
      union all
      select 'function ' || concat_ws(' ', pg_get_functiondef(oid), proacl::text)
        from pg_proc where pronamespace = $1::text::regnamespace
      union all
      select 'type ' || concat_ws(' ', typname, typtype, typacl::text)
        from pg_type where typnamespace = $1::text::regnamespace
      union all
      select 'schema ' || nspacl::text from pg_namespace where nspname = $1";
    let rows = client.query(sql, &[&schema]).await.unwrap();
    let mut found: BTreeSet<String> = rows.iter().map(|row| row.get(0)).collect();
    assert!(found.len() > 100, "the catalog is not read: {found:?}");
    let steps = format!("select 'step ' || version || ' ' || name from \"{schema}\".migration");
    let rows = client.query(&steps, &[]).await.unwrap();
    found.extend(rows.iter().map(|row| row.get::<_, String>(0)));
    let revision = format!("select 'functions ' || revision from \"{schema}\".function_set");
    found.insert(client.query_one(&revision, &[]).await.unwrap().get(0));
    found
}

#[tokio::test]
async fn printed_sql_gives_the_same_catalog_as_running_it() {
    let (printed, applied) = (Program::empty().await, Program::empty().await);
    let text = end(command(&["migrate", "--print"])).await.code(0).out;
    let comments = text.lines().filter(|line| line.trim_start().starts_with("--"));
    for comment in comments {
        assert!(!comment.contains("\"postrider\""), "a placeholder in a comment: {comment}");
    }
    printed.client.batch_execute(&text).await.unwrap();
    applied.ok(&["migrate"]).await.says("migrated `postrider`: 0001_core");
    let (one, other) =
        (catalog(&printed.client, "postrider").await, catalog(&applied.client, "postrider").await);
    let differences: Vec<&String> = one.symmetric_difference(&other).collect();
    assert!(differences.is_empty(), "{differences:#?}");
    printed.ok(&["migrate"]).await.says("up to date");
    printed.ok(&["types", "list"]).await;
}

#[tokio::test]
async fn four_at_once_on_an_empty_database_all_succeed_and_each_step_is_there_once() {
    let program = Program::empty().await;
    let (a, b, c, d) = tokio::join!(
        program.run(&["migrate"]),
        program.run(&["migrate"]),
        program.run(&["migrate"]),
        program.run(&["migrate"]),
    );
    for ended in [a, b, c, d] {
        ended.code(0);
    }
    let steps = "select count(*) from postrider.migration";
    let distinct = "select count(distinct version) from postrider.migration";
    assert_eq!(program.count(steps).await, program.count(distinct).await);
    program.ok(&["migrate", "--status"]).await.says("up to date");
}

#[tokio::test]
async fn status_says_where_the_schema_stands_and_exits_1_when_there_is_something_to_do() {
    let program = Program::empty().await;
    let missing = program.run(&["migrate", "--status", "--json"]).await.code(1).json();
    assert_eq!(missing["status"], "missing");
    let done = program.ok(&["migrate", "--json"]).await.json();
    assert_eq!(done["applied"][0], "0001_core");
    assert_eq!(
        program.ok(&["migrate", "--json"]).await.json()["applied"].as_array().unwrap().len(),
        0
    );
    program.ok(&["migrate", "--status"]).await.says("up to date");
    program
        .client
        .batch_execute("insert into postrider.migration (version, name) values (9999, 'future')")
        .await
        .unwrap();
    let ahead = program.run(&["migrate", "--status", "--json"]).await.code(1).json();
    assert_eq!((&ahead["status"], &ahead["version"]), (&"ahead".into(), &9999.into()));
    program.run(&["migrate"]).await.code(2).complains("run the newer program");
    program.run(&["types", "list"]).await.code(2).complains("9999");
}

#[tokio::test]
async fn a_schema_of_another_name_works_everywhere() {
    let program = Program::empty().await;
    let schema = "Out \"Box\"";
    program.ok(&["migrate", "--schema", schema]).await;
    program.run(&["types", "list"]).await.code(2);
    program.ok(&["--schema", schema, "types", "declare", "a.b"]).await.says("declared a.b");
    let mut list = program.command(&["types", "list", "--json"]);
    list.env("POSTRIDER_SCHEMA", schema);
    assert_eq!(end(list).await.code(0).json()[0]["name"], "a.b");
}
