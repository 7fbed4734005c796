//! What the role of an engine must be allowed to do, and what happens when it is not.

use std::collections::BTreeSet;
use std::time::Duration;

use postrider::{Database, Engine, EngineBuilder, ErrorKind, Part, Schema, for_tests};
use tokio_postgres::Client;

use crate::fixture::Fixture;
use crate::health::{wait_ill, wait_well};
use crate::support::{Seen, eager};

/// A privilege as a grant names it: `select on table "postrider".event`.
type Privilege = String;

/// Every privilege that could be granted on what is in the schema.
const ALL: &str = r#"
    select p || ' on ' || case c.relkind when 'S' then 'sequence ' else 'table ' end
      || '"postrider".' || quote_ident(c.relname)
    from pg_class c cross join unnest(case c.relkind when 'S' then array['usage', 'select']
      else array['select', 'insert', 'update', 'delete'] end) p
    where c.relnamespace = 'postrider'::regnamespace and c.relkind in ('r', 'p', 'S')
      and c.relname !~ '_[0-9]{8}$'
    union all
    select 'execute on function "postrider".' || quote_ident(p.proname)
      || '(' || pg_get_function_identity_arguments(p.oid) || ')' from pg_proc p
    where p.pronamespace = 'postrider'::regnamespace
    order by 1"#;

/// What is needed beside: for the look at the schema, for handlers that settle in their own
/// transaction, and by a default value, which a plan does not show.
const BESIDE: [&str; 4] = [
    "select on table \"postrider\".migration",
    "select on table \"postrider\".function_set",
    "execute on function \"postrider\".complete(job_id bigint, token bigint, output jsonb)",
    "usage on sequence \"postrider\".job_id_seq",
];

/// Whether the current role may run each of the prepared statements.
async fn is_denied(client: &Client, explains: &[String]) -> bool {
    for explain in explains {
        if let Err(error) = client.batch_execute(explain).await {
            assert_eq!(error.code().unwrap().code(), "42501", "{explain}: {error:?}");
            return true;
        }
    }
    false
}

/// Prepares every statement of the engine; each text explains one of them.
async fn explains(client: &Client) -> Vec<String> {
    client.batch_execute("set plan_cache_mode = force_generic_plan").await.unwrap();
    let mut explains = Vec::new();
    for (name, text, types) in for_tests::statements(&Schema::default()) {
        let types: Vec<&str> = types.iter().map(tokio_postgres::types::Type::name).collect();
        let declared =
            if types.is_empty() { String::new() } else { format!("({})", types.join(",")) };
        client.batch_execute(&format!("prepare {name}{declared} as {text}")).await.unwrap();
        let nulls = vec!["null"; types.len()].join(",");
        let given = if types.is_empty() { String::new() } else { format!("({nulls})") };
        explains.push(format!("explain execute {name}{given}"));
    }
    explains
}

/// A role that may use the schema and nothing else; it goes with the database's name.
async fn role(fixture: &Fixture) -> String {
    let role = format!("engine_{}", fixture.db.name());
    fixture
        .sql(&format!(
            "create role {role} login password 'p'; grant usage on schema postrider to {role}"
        ))
        .await;
    role
}

async fn forget(fixture: &Fixture, role: &str) {
    fixture.sql(&format!("reset role; drop owned by {role}; drop role {role}")).await;
}

/// What an engine of `role` would say that it lacks.
async fn lacking(client: &Client) -> BTreeSet<Privilege> {
    let statements = for_tests::statements(&Schema::default());
    let (_, text, _) = statements.iter().find(|s| s.0 == "privileges_missing").unwrap();
    let rows = client.query(text, &[]).await.unwrap();
    let of = |row: &tokio_postgres::Row| {
        let (object, privileges): (String, String) = (row.get(0), row.get(1));
        privileges.split(", ").map(|p| format!("{p} on {object}")).collect::<Vec<_>>()
    };
    rows.iter().flat_map(of).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_asks_for_exactly_the_privileges_that_its_statements_need() {
    let fixture = Fixture::new().await;
    let client = &fixture.client;
    let role = role(&fixture).await;
    let all = fixture.texts(ALL).await;
    assert!(all.len() > 80, "only {} privileges were looked at", all.len());
    for privilege in &all {
        fixture.sql(&format!("grant {privilege} to {role}")).await;
    }
    let explains = explains(client).await;
    let as_role = format!("set role {role}");
    fixture.sql(&as_role).await;
    assert!(!is_denied(client, &explains).await);
    let mut needed: BTreeSet<Privilege> = BESIDE.map(str::to_owned).into();
    for privilege in &all {
        fixture.sql(&format!("reset role; revoke {privilege} from {role}; {as_role}")).await;
        if is_denied(client, &explains).await {
            needed.insert(privilege.clone());
        }
        fixture.sql(&format!("reset role; grant {privilege} to {role}; {as_role}")).await;
    }
    fixture.sql("reset role").await;
    for privilege in &all {
        fixture.sql(&format!("revoke {privilege} from {role}")).await;
    }
    fixture.sql(&as_role).await;
    let asked = lacking(client).await;
    forget(&fixture, &role).await;
    assert_eq!(asked, needed);
}

/// An engine that connects as `role`.
fn engine_of(fixture: &Fixture, role: &str, seen: &Seen) -> EngineBuilder {
    let url = fixture.db.url();
    let (_, place) = url.split_once('@').unwrap();
    let database = Database::new(&format!("postgres://{role}:p@{place}")).unwrap().pool_size(16);
    Engine::builder(database)
        .poll_interval(Duration::from_millis(100))
        .subscribe(eager("s", &["a.b"], 3), seen.handler())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_without_privileges_is_told_what_to_grant_and_one_that_loses_one_loses_no_event() {
    let mut fixture = Fixture::new().await;
    fixture.declare(&["a.b"]).await;
    let (role, seen) = (role(&fixture).await, Seen::default());
    let looks = "grant select on postrider.migration, postrider.function_set";
    fixture.sql(&format!("{looks} to {role}")).await;
    let refused = engine_of(&fixture, &role, &seen).start().await.err().unwrap();
    assert_eq!(refused.kind(), ErrorKind::Configuration);
    assert!(refused.to_string().contains("insert, update, delete on table"), "{refused}");
    let hint = refused.hint().unwrap();
    fixture.sql(hint.split_once("run: ").unwrap().1).await;
    let engine = engine_of(&fixture, &role, &seen).start().await.unwrap();
    fixture.record("a.b", "x1").await;
    seen.wait_for(1).await;
    fixture.sql(&format!("revoke insert on postrider.job from {role}")).await;
    fixture.record("a.b", "x2").await;
    let why = wait_ill(&engine, Part::Relay).await;
    assert!(why.contains("permission denied for table job"), "{why}");
    let used = "select coalesce(max(attempts), 0)::bigint from postrider.fanout_failure";
    fixture.wait_count(used, 0).await;
    fixture.sql(&format!("grant insert on postrider.job to {role}")).await;
    seen.wait_for(2).await;
    wait_well(&engine).await;
    engine.shutdown().await;
    assert_eq!(seen.subjects("s"), ["x1", "x2"]);
    forget(&fixture, &role).await;
}
