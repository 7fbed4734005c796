//! The schema refuses what must not be, and opens itself to nobody.

use std::collections::BTreeSet;

use crate::fixture::Fixture;
use crate::schema_violations::VIOLATIONS;
use crate::schema_violations_jobs::OF_JOBS;

/// What a test needs in the tables before it can break a rule.
const GIVEN: &str = "
    insert into postrider.event_type (type) values ('a.b');
    insert into postrider.subscription (name, globs, declared_globs, backoff,
      created_routing_version)
      values ('sub', '{a.b}', '{a.b}', '{}', 1);
    insert into postrider.route select 'a.b', id from postrider.subscription;
    insert into postrider.session (id, name, version, runs_relay, started_at, expires_at)
      values ('00000000-0000-0000-0000-000000000001', 'n', 'v', true, now(), now());
    insert into postrider.registration select '00000000-0000-0000-0000-000000000001', id, '{a}'
      from postrider.subscription;
    insert into postrider.lease (session_id, job_ids, claimed_at)
      values ('00000000-0000-0000-0000-000000000001', '{1}', now());
    insert into postrider.event (seq, occurred_at, id, tenant, type, subject, key, data)
      values (1, '2000-01-01', gen_random_uuid(), '', 'a.b', 's', 's', '{}');
    insert into postrider.record_key values
      ('00000000-0000-0000-0000-000000000001', sha256(''), 1, now());
    insert into postrider.owed values (1, now());
    insert into postrider.fanout_failure (seq, occurred_at, tenant, key, retry_at)
      values (1, now(), '', 'k', now());
    insert into postrider.fanout (seq, occurred_at, fanned_out_at, routing_version,
      subscription_ids, job_ids)
      values (1, '2000-01-01', now(), 1, '{}', '{}');
    insert into postrider.job (id, due_at, created_at, subscription_id, origin, priority, tenant)
      values (1, now(), now(), 1, 'enqueue', 2, '');
    insert into postrider.job_history (id, finished_at, started_at, created_at, subscription_id,
      attempt, extra_attempts, state, origin, priority, tenant)
      values (1, '2000-01-01', now(), now(), 1, 1, 0, 'completed', 'enqueue', 2, '');
    insert into postrider.unique_key values (sha256(''), 1, now(), now());
    insert into postrider.periodic (name, kind, cron, time_zone, arguments, catch_up, catch_up_max,
      version, declared_at)
      values ('nightly', 'k', '0 0 * * *', 'UTC', '{}', 'once', 100, 1, now());
    insert into postrider.watch (schema_name, table_name, type, subject, tenant, columns, include)
      values ('public', 't', 'a.b', 's', '', '{id}', 'none');
    insert into postrider.periodic_tick select id, '2000-01-01', 1 from postrider.periodic;";

/// Every rule by the name of its constraint or unique index, as `table: name` or `domain: name`.
/// Partitions have those of their parents.
const RULES: &str = "
    select distinct c.relname || ': ' || r.name
    from pg_class c
    join pg_namespace n on n.oid = c.relnamespace and n.nspname = 'postrider'
    join lateral (
      select conname::text as name from pg_constraint where conrelid = c.oid and contype in ('c',
        'p', 'u', 'f', 'x')
      union
      select i.relname::text from pg_index x join pg_class i on i.oid = x.indexrelid
        where x.indrelid = c.oid and x.indisunique
    ) r on true
    where not c.relispartition
    union
    select t.typname || ': ' || conname
    from pg_constraint join pg_type t on t.oid = contypid and t.typnamespace =
      'postrider'::regnamespace";

#[tokio::test(flavor = "multi_thread")]
async fn every_rule_of_the_schema_refuses_what_breaks_it_by_its_name() {
    let fixture = Fixture::new().await;
    fixture.client.batch_execute(GIVEN).await.unwrap();
    for (table, rule, sql) in VIOLATIONS.iter().chain(OF_JOBS) {
        let error = match fixture.client.batch_execute(sql).await {
            Ok(()) => panic!("{table}: {rule} let this pass: {sql}"),
            Err(error) => error,
        };
        let report = error.as_db_error().unwrap_or_else(|| panic!("{table}: {rule}: {error:?}"));
        let broken = report.constraint().unwrap_or_else(|| panic!("{sql}: {report}"));
        let names = fixture.client.query(OF_PARENT, &[&broken]).await.unwrap();
        let is_the_rule = names.iter().any(|row| row.get::<_, &str>(0) == *rule);
        assert!(is_the_rule, "{table}: {rule}: {sql}: {report}");
    }
}

/// The name of a constraint, and those of the constraints of parents that it stands for.
const OF_PARENT: &str = "
    with recursive up as (
      select conname, conparentid from pg_constraint
        where conname = $1 and connamespace = 'postrider'::regnamespace
      union
      select c.conname, c.conparentid from pg_constraint c join up on c.oid = up.conparentid
    )
    select conname::text from up union select $1";

#[tokio::test(flavor = "multi_thread")]
async fn no_rule_of_the_schema_is_without_a_case_that_breaks_it() {
    let fixture = Fixture::new().await;
    let rows = fixture.client.query(RULES, &[]).await.unwrap();
    let found: BTreeSet<String> = rows.iter().map(|row| row.get(0)).collect();
    let covered: BTreeSet<String> = VIOLATIONS
        .iter()
        .chain(OF_JOBS)
        .map(|(table, rule, _)| format!("{table}: {rule}"))
        .collect();
    let missing: Vec<_> = found.difference(&covered).collect();
    assert!(missing.is_empty(), "add a case to schema_violations.rs for {missing:#?}");
    let gone: Vec<_> = covered.difference(&found).collect();
    assert!(gone.is_empty(), "cases for rules that do not exist: {gone:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_granted_to_public() {
    let fixture = Fixture::new().await;
    // Where no list of grants is kept, the built-in one holds: it opens functions and types to all.
    let sql = "
        with thing as (
          select 'function ' || p.proname as what, coalesce(p.proacl, acldefault('f',
            p.proowner)) as acl
            from pg_proc p where p.pronamespace = 'postrider'::regnamespace
          union all
          select 'type ' || t.typname, coalesce(t.typacl, acldefault('T', t.typowner))
            from pg_type t where t.typnamespace = 'postrider'::regnamespace and t.typtype in
              ('e', 'd')
          union all
          select 'relation ' || c.relname, coalesce(c.relacl,
              acldefault(case when c.relkind = 'S' then 's' else 'r' end::\"char\", c.relowner))
            from pg_class c where c.relnamespace = 'postrider'::regnamespace
          union all
          select 'schema ' || n.nspname, coalesce(n.nspacl, acldefault('n', n.nspowner))
            from pg_namespace n where n.nspname = 'postrider'
        )
        select what, exists (select from aclexplode(acl) g where g.grantee = 0) as open from
          thing";
    let rows = fixture.client.query(sql, &[]).await.unwrap();
    for kind in ["function ", "type ", "relation ", "schema "] {
        let looked_at = rows.iter().filter(|row| row.get::<_, &str>(0).starts_with(kind)).count();
        assert!(looked_at > 0, "no {kind}was looked at");
    }
    let open: Vec<&str> = rows.iter().filter(|row| row.get(1)).map(|row| row.get(0)).collect();
    assert!(open.is_empty(), "granted to PUBLIC: {open:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_definer_function_has_a_fixed_search_path() {
    let fixture = Fixture::new().await;
    let sql = "
        select p.proname::text, p.proconfig from pg_proc p
        where p.pronamespace = 'postrider'::regnamespace and p.prosecdef";
    let rows = fixture.client.query(sql, &[]).await.unwrap();
    assert!(rows.len() >= 5, "only {} definer functions were looked at", rows.len());
    for row in &rows {
        let (name, settings): (String, Option<Vec<String>>) = (row.get(0), row.get(1));
        let settings = settings.unwrap_or_default();
        let fixed = settings.iter().any(|set| set == "search_path=pg_catalog, pg_temp");
        assert!(fixed, "{name} runs under {settings:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_that_may_only_record_can_do_nothing_else() {
    let fixture = Fixture::new().await;
    fixture.declare(&["a.b"]).await;
    let role = format!("app_{}", fixture.db.name());
    let client = &fixture.client;
    let grants = format!(
        "create role {role};
         grant usage on schema postrider to {role};
         grant execute on function postrider.record(text, text, jsonb, text, text, jsonb, uuid,
           bytea, text, integer),
           postrider.record_many(jsonb) to {role};
         set role {role};"
    );
    client.batch_execute(&grants).await.unwrap();
    client
        .batch_execute("select postrider.record('a.b', 's', id => gen_random_uuid())")
        .await
        .unwrap();
    let many = r#"select postrider.record_many('[{"type": "a.b", "subject": "s"}]')"#;
    client.batch_execute(many).await.unwrap();
    // Refusals look types up, which must work with these rights too.
    let undeclared = client
        .batch_execute(
            "select postrider.record('a.c',
        's')",
        )
        .await
        .unwrap_err();
    assert_eq!(undeclared.code().unwrap().code(), "PR001");
    // Names of types come out qualified, whatever the role's own path is.
    client.batch_execute("reset role; set search_path = public").await.unwrap();
    let names = "
        select format('select from postrider.%I', relname) from pg_class
          where relnamespace = 'postrider'::regnamespace and relkind in ('r', 'p')
        union all
        select format('delete from postrider.%I', relname) from pg_class
          where relnamespace = 'postrider'::regnamespace and relkind in ('r', 'p')
        union all
        select format('select nextval(%L)', 'postrider.' || relname) from pg_class
          where relnamespace = 'postrider'::regnamespace and relkind = 'S'
        union all
        select format('select postrider.%I(%s)', proname, (
            select string_agg(format('null::%s', format_type(a, null)),
              ', ') from unnest(proargtypes) a))
          from pg_proc where pronamespace = 'postrider'::regnamespace
            and proname not in ('record', 'record_many')";
    let statements: Vec<String> =
        client.query(names, &[]).await.unwrap().iter().map(|row| row.get(0)).collect();
    assert!(statements.len() > 40, "only {} statements", statements.len());
    client.batch_execute(&format!("set role {role}")).await.unwrap();
    for statement in statements {
        let refused = client.batch_execute(&statement).await.expect_err(&statement);
        assert_eq!(refused.code().unwrap().code(), "42501", "{statement}: {refused:?}");
    }
    client
        .batch_execute(&format!("reset role; drop owned by {role}; drop role {role}"))
        .await
        .unwrap();
}
