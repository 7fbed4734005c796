//! Migrations: several at once, in schemas of any name, refused or undone as a whole.

use std::collections::HashSet;
use std::time::Duration;

use postrider::migrate::{self, Status};
use postrider::{Database, Delivery, Engine, ErrorKind, NewEvent, Recorder, Schema, Subscription};
use postrider_testkit::TestDatabase;
use tokio_postgres::Client;

use crate::fixture::{PATIENCE, event_type};

/// Names that break SQL which was put together carelessly; the last has 63 bytes.
const ODD_NAMES: &[&str] = &[
    "Out-Box x",
    "it's \"quoted\"",
    "100%",
    "%I %s %L",
    "a$$b$q$c",
    "{schema}{channel}",
    "drop table--/*;",
    "почта 📮",
    "select",
    "a63456789_b23456789_c23456789_d23456789_e23456789_f23456789_123",
];

/// Columns, constraints, indexes, functions and grants of a schema, as sorted texts.
async fn catalog(client: &Client, schema: &Schema) -> Vec<String> {
    let sql = "
        select 'column ' || c.relname || '.' || a.attname || ' ' || format_type(a.atttypid,
          a.atttypmod)
            || ' ' || a.attnotnull || coalesce(' ' || pg_get_expr(d.adbin, d.adrelid), '')
            || coalesce(' ' || array_to_string(c.reloptions, ','), '') as line
          from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0
          left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
          where c.relnamespace = n.oid and c.relkind in ('r', 'p', 'S', 'v')
        union all
        select 'constraint ' || conrelid::regclass || ' ' || conname || ' ' ||
          pg_get_constraintdef(oid)
          from pg_constraint where connamespace = n.oid
        union all
        select 'index ' || indexdef from pg_indexes where schemaname = n.nspname
        union all
        select 'partition ' || inhparent::regclass || ' ' || inhrelid::regclass
          from pg_inherits i join pg_class c on c.oid = i.inhparent and c.relnamespace = n.oid
        union all
        select 'function ' || pg_get_functiondef(p.oid) || coalesce(p.proacl::text, 'public')
          from pg_proc p where p.pronamespace = n.oid
        union all
        select 'type ' || t.typname || ' ' || e.enumlabel || coalesce(t.typacl::text, 'public')
          from pg_type t join pg_enum e on e.enumtypid = t.oid where t.typnamespace = n.oid";
    let sql = format!("select line from pg_namespace n, lateral ({sql}) x where n.nspname = $1");
    let rows = client.query(&sql, &[&schema.name()]).await.unwrap();
    let mut lines: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    lines.sort();
    lines
}

async fn connect(db: &TestDatabase) -> Client {
    Database::new(&db.url()).unwrap().connect().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn eight_that_migrate_at_once_do_each_step_once() {
    for round in 0..3 {
        let db = TestDatabase::create().await;
        let mut clients = Vec::new();
        for _ in 0..8 {
            clients.push(connect(&db).await);
        }
        let tasks: Vec<_> = clients
            .into_iter()
            .map(|mut client| {
                tokio::spawn(async move { migrate::apply(&mut client, &Schema::default()).await })
            })
            .collect();
        let mut steps = Vec::new();
        for task in tasks {
            steps.extend(task.await.unwrap().unwrap());
        }
        let distinct: HashSet<&String> = steps.iter().collect();
        assert_eq!(distinct.len(), steps.len(), "round {round}: done twice: {steps:?}");
        assert!(steps.iter().any(|step| step.contains("core")), "round {round}: {steps:?}");
        let client = db.client().await;
        let status = migrate::status(&client, &Schema::default()).await.unwrap();
        assert_eq!(status, Status::Current, "round {round}");
        db.drop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_may_have_any_name() {
    let db = TestDatabase::create().await;
    let mut client = connect(&db).await;
    for name in ODD_NAMES {
        let schema = Schema::new(*name).unwrap();
        migrate::apply(&mut client, &schema)
            .await
            .unwrap_or_else(|error| panic!("{name}: {error:?}"));
        let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
        let engine = Engine::builder(Database::new(&db.url()).unwrap())
            .schema(schema.clone())
            .declare(event_type("a.b"))
            .subscribe(Subscription::new("s", ["a.*"]).unwrap(), move |delivery: Delivery| {
                let _ = sender.send(delivery.event.id);
                async {}
            })
            .start()
            .await
            .unwrap_or_else(|error| panic!("{name}: {error:?}"));
        let event = NewEvent::new("a.b", "s").unwrap();
        let id = Recorder::new(&schema).record(&mut client, &event).await.unwrap();
        let seen = tokio::time::timeout(PATIENCE, receiver.recv()).await;
        assert_eq!(seen.unwrap_or_else(|_| panic!("{name}: not delivered")), Some(id));
        engine.advance_clock(Duration::from_secs(30 * 86_400));
        engine.maintain().await.unwrap_or_else(|error| panic!("{name}: {error:?}"));
        engine.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_schemas_of_one_database_do_not_disturb_each_other() {
    let db = TestDatabase::create().await;
    let mut client = connect(&db).await;
    let schemas = ["left", "Right one"].map(|name| Schema::new(name).unwrap());
    let mut engines = Vec::new();
    let mut seen = Vec::new();
    for schema in &schemas {
        let (sender, receiver) = tokio::sync::mpsc::unbounded_channel();
        let engine = Engine::builder(Database::new(&db.url()).unwrap())
            .schema(schema.clone())
            .migrate_on_start()
            .declare(event_type("a.b"))
            .subscribe(Subscription::new("s", ["**"]).unwrap(), move |delivery: Delivery| {
                let _ = sender.send(delivery.event.subject);
                async {}
            })
            .start()
            .await
            .unwrap();
        engines.push(engine);
        seen.push(receiver);
    }
    for (schema, receiver) in schemas.iter().zip(&mut seen) {
        let recorder = Recorder::new(schema);
        for n in 0..20 {
            let subject = format!("{} {n}", schema.name());
            let event = NewEvent::new("a.b", subject).unwrap();
            recorder.record(&mut client, &event).await.unwrap();
        }
        let mut subjects = HashSet::new();
        while subjects.len() < 20 {
            let next = tokio::time::timeout(PATIENCE, receiver.recv()).await;
            subjects.insert(next.unwrap().unwrap());
        }
        assert!(subjects.iter().all(|subject| subject.starts_with(schema.name())), "{subjects:?}");
    }
    for engine in engines {
        engine.shutdown().await;
    }
    // Whatever else had come would be in the channels now, since the engines have drained.
    for receiver in &mut seen {
        assert!(receiver.try_recv().is_err(), "an event reached the engine of another schema");
    }
    let sql = "select (l.k).channel <> (r.k).channel and (l.k).bell <> (r.k).bell
            and (l.k).duty <> (r.k).duty and (l.k).routing <> (r.k).routing
        from (select \"left\".wake_keys() k) l, (select \"Right one\".wake_keys() k) r";
    assert!(client.query_one(sql, &[]).await.unwrap().get::<_, bool>(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_status_tells_missing_from_behind_from_current_from_ahead() {
    let db = TestDatabase::create().await;
    let mut client = connect(&db).await;
    let schema = Schema::new("Out-Box x").unwrap();
    assert_eq!(migrate::status(&client, &schema).await.unwrap(), Status::Missing);
    client.batch_execute("create schema \"Out-Box x\"").await.unwrap();
    assert_eq!(migrate::status(&client, &schema).await.unwrap(), Status::Missing);
    migrate::apply(&mut client, &schema).await.unwrap();
    assert_eq!(migrate::status(&client, &schema).await.unwrap(), Status::Current);
    assert!(migrate::apply(&mut client, &schema).await.unwrap().is_empty());
    let version = migrate::version();
    client.batch_execute("update \"Out-Box x\".function_set set revision = 0").await.unwrap();
    assert_eq!(migrate::status(&client, &schema).await.unwrap(), Status::Behind { version });
    let steps = migrate::apply(&mut client, &schema).await.unwrap();
    assert!(steps.len() == 1 && steps[0].starts_with("functions"), "{steps:?}");
    client
        .batch_execute("insert into \"Out-Box x\".migration (version, name) values (999, 'later')")
        .await
        .unwrap();
    assert_eq!(migrate::status(&client, &schema).await.unwrap(), Status::Ahead { version: 999 });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_schema_is_refused_by_migration_and_engine_with_both_versions() {
    let db = TestDatabase::create().await;
    let mut client = connect(&db).await;
    migrate::apply(&mut client, &Schema::default()).await.unwrap();
    let newer = "insert into postrider.migration (version, name) values (999, 'later');
        update postrider.function_set set revision = 0";
    client.batch_execute(newer).await.unwrap();
    let refused = migrate::apply(&mut client, &Schema::default()).await.unwrap_err();
    let builder = Engine::builder(Database::new(&db.url()).unwrap()).migrate_on_start();
    let not_started = match builder.start().await {
        Ok(_) => panic!("an engine ran on a newer schema"),
        Err(error) => error,
    };
    for error in [refused, not_started] {
        assert_eq!(error.kind(), ErrorKind::Schema);
        let text = error.to_string();
        assert!(text.contains("999") && text.contains(&migrate::version().to_string()), "{text}");
        assert!(error.hint().is_some_and(|hint| hint.contains("newer")), "{error:?}");
    }
    let sql = "select revision from postrider.function_set";
    let revision: i32 = client.query_one(sql, &[]).await.unwrap().get(0);
    assert_eq!(revision, 0, "the functions of a newer schema were replaced");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_says_what_to_run_when_the_schema_is_missing_or_behind() {
    let db = TestDatabase::create().await;
    let start = || Engine::builder(Database::new(&db.url()).unwrap()).start();
    let missing = start().await.err().expect("there is no schema");
    assert_eq!(missing.kind(), ErrorKind::Schema);
    let mut client = connect(&db).await;
    migrate::apply(&mut client, &Schema::default()).await.unwrap();
    client.batch_execute("update postrider.function_set set revision = 0").await.unwrap();
    let behind = start().await.err().expect("the functions are old");
    assert_eq!(behind.kind(), ErrorKind::Schema);
    for error in [missing, behind] {
        assert!(error.hint().is_some_and(|hint| hint.contains("migrate")), "{error:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_fails_leaves_nothing_of_it_and_can_be_repeated() {
    let db = TestDatabase::create().await;
    let mut client = connect(&db).await;
    // Somebody else's table stands in the way of the last part of the step.
    client
        .batch_execute(
            "create schema postrider; create table postrider.job_attempt_default (x int)",
        )
        .await
        .unwrap();
    let refused = migrate::apply(&mut client, &Schema::default()).await.unwrap_err();
    assert!(refused.to_string().contains("core"), "{refused:?}");
    let cause = std::error::Error::source(&refused).expect("the database's own words");
    assert!(cause.to_string().contains("job_attempt_default"), "{cause}");
    let left = "select string_agg(relname, ' ') from pg_class
        where relnamespace = 'postrider'::regnamespace and relkind in ('r', 'p', 'S')
          and relname not in ('migration', 'function_set', 'job_attempt_default')";
    let left: Option<String> = client.query_one(left, &[]).await.unwrap().get(0);
    assert_eq!(left, None);
    let status = migrate::status(&client, &Schema::default()).await.unwrap();
    assert_eq!(status, Status::Behind { version: 0 });
    client.batch_execute("drop table postrider.job_attempt_default").await.unwrap();
    migrate::apply(&mut client, &Schema::default()).await.unwrap();
    let status = migrate::status(&client, &Schema::default()).await.unwrap();
    assert_eq!(status, Status::Current);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_printed_sql_makes_what_the_migration_makes() {
    for name in ["postrider", "it's \"quoted\""] {
        let schema = Schema::new(name).unwrap();
        let (by_print, by_apply) = (TestDatabase::create().await, TestDatabase::create().await);
        let printed = by_print.client().await;
        printed.batch_execute(&migrate::print(&schema)).await.unwrap();
        let mut applied = connect(&by_apply).await;
        migrate::apply(&mut applied, &schema).await.unwrap();
        assert_eq!(migrate::status(&printed, &schema).await.unwrap(), Status::Current);
        let (left, right) = (catalog(&printed, &schema).await, catalog(&applied, &schema).await);
        assert!(left.len() > 400, "only {} lines", left.len());
        let (left, right): (HashSet<_>, HashSet<_>) =
            (left.into_iter().collect(), right.into_iter().collect());
        let differences: Vec<_> = left.symmetric_difference(&right).collect();
        assert!(differences.is_empty(), "{differences:#?}");
    }
}
