//! Watched tables: which changes become events, and what these say.

use crate::fixture::Fixture;

/// Each event as `type subject data`, in order.
pub(crate) const EVENTS: &str =
    "select concat_ws(' ', type, subject, data) from postrider.event order by seq";

/// A database with the table `orders` and the type `order.changed`.
pub(crate) async fn orders() -> Fixture {
    let fixture = Fixture::new().await;
    fixture.declare(&["order.changed"]).await;
    // The server's role may be named as Postrider's schema is, which would be its own path then.
    let sql = "set search_path = public;
        create table orders (id int primary key, state text, note text, price numeric)";
    fixture.client.batch_execute(sql).await.unwrap();
    fixture
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_are_made_changed_and_deleted_are_events_and_unwatched_columns_are_none() {
    let fixture = orders().await;
    fixture
        .sql(
            "select postrider.watch('orders', 'order.changed', 'order:{id}', '{state,price}');
             insert into orders values (1, 'new', 'n', 1.10);
             update orders set note = 'other', state = 'new';
             update orders set state = 'paid', price = 1.1;
             insert into orders values (1, 'x') on conflict (id) do update set state = 'sent';
             delete from orders",
        )
        .await;
    let expected = [
        r#"{"op": "created", "key": {"id": 1}}"#,
        r#"{"op": "updated", "key": {"id": 1}, "changed": ["state", "price"]}"#,
        r#"{"op": "updated", "key": {"id": 1}, "changed": ["state"]}"#,
        r#"{"op": "deleted", "key": {"id": 1}, "old": {"price": 1.1, "state": "sent"}}"#,
    ]
    .map(|data| format!("order.changed order:1 {data}"));
    assert_eq!(fixture.texts(EVENTS).await, expected);
    assert_eq!(fixture.count("select count(*) from postrider.owed").await, 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_rolled_back_is_no_event_and_a_savepoint_takes_its_own_back() {
    let fixture = orders().await;
    fixture.sql("select postrider.watch('orders', 'order.changed', 'order:{id}')").await;
    fixture.sql("begin; insert into orders values (1); rollback").await;
    fixture
        .sql(
            "begin; insert into orders values (2); savepoint s; insert into orders values (3);
             rollback to s; insert into orders values (4); commit",
        )
        .await;
    let subjects = "select subject from postrider.event order by seq";
    assert_eq!(fixture.texts(subjects).await, ["order:2", "order:4"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_changes_is_one_event_with_both_keys_and_values_come_when_asked_for() {
    let fixture = orders().await;
    fixture
        .sql(
            "select postrider.watch('orders', 'order.changed', 'order:{id}', '{price}', 'both');
             insert into orders values (1, 'new', 'n', 12345678901234567890.10);
             update orders set id = 2",
        )
        .await;
    let price = r#"{"price": 12345678901234567890.10}"#;
    let expected = [
        format!(r#"order.changed order:1 {{"op": "created", "key": {{"id": 1}}, "new": {price}}}"#),
        format!(
            "order.changed order:2 {{\"op\": \"updated\", \"key\": {{\"id\": 2}}, \
             \"new\": {price}, \
             \"old\": {price}, \"changed\": [\"id\"], \"old_key\": {{\"id\": 1}}}}"
        ),
    ];
    let found = fixture.texts(EVENTS).await;
    assert_eq!(found, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn odd_names_other_schemas_and_partitions_that_come_later_are_watched() {
    let fixture = orders().await;
    fixture
        .sql(
            r#"create schema "Läden x";
             create table "Läden x"."Bestell""ung %" ("Ort's" text, "nr %" int, "größe" int[],
               primary key ("Ort's", "nr %")) partition by list ("nr %");
             select postrider.watch('"Läden x"."Bestell""ung %"', 'order.changed',
               '100%:{Ort''s}/{nr %}', include => 'new', key => '{nr %}', tenant => '{Ort''s}');
             create table part partition of "Läden x"."Bestell""ung %" for values in (7);
             insert into part values ('Köln', 7, '{1,2}')"#,
        )
        .await;
    let sql = "select concat_ws(' ', subject, key, tenant, data -> 'new') from postrider.event";
    let expected = r#"100%:Köln/7 7 Köln {"nr %": 7, "Ort's": "Köln", "größe": [1, 2]}"#;
    assert_eq!(fixture.texts(sql).await, [expected]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_without_rights_writes_and_what_it_puts_into_the_way_is_not_called() {
    let fixture = orders().await;
    let role = format!("writer_{}", fixture.db.name());
    fixture
        .sql(&format!(
            "create type mood as enum ('glad', 'sad');
             alter table orders add column mood mood, add column moods mood[];
             select postrider.watch('orders', 'order.changed', 'order:{{id}}', include => 'new');
             create role {role}; create schema trap authorization {role};
             grant insert, update, delete, select on orders to {role};
             create function trap.evil(mood) returns json language plpgsql
               as $$ begin raise 'called'; end $$;
             create cast (mood as json) with function trap.evil(mood);
             set role {role};
             create function trap.format(text, anyelement) returns text language plpgsql
               as $$ begin raise 'called'; end $$;
             create function trap.to_jsonb(text) returns jsonb language plpgsql
               as $$ begin raise 'called'; end $$;
             set search_path = trap, public, pg_catalog;
             create temp table event (x int);
             insert into public.orders (id, mood, moods) values (1, 'glad', '{{sad,glad}}');
             update public.orders set mood = 'sad'; reset role; set search_path = public"
        ))
        .await;
    let sql = "select (data -> 'new' ->> 'mood') || (data -> 'new' ->> 'moods')
        from postrider.event order by seq";
    assert_eq!(fixture.texts(sql).await, [r#"glad["sad", "glad"]"#, r#"sad["sad", "glad"]"#]);
    fixture.sql(&format!("drop owned by {role} cascade; drop role {role}")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn values_too_large_for_an_event_are_left_out_and_unwatch_ends_it_after_a_rename() {
    let fixture = orders().await;
    fixture
        .sql(
            "select postrider.watch('orders', 'order.changed', 'order:{id}', include => 'new');
             insert into orders values (1, repeat('x', 300000));
             alter table orders rename to purchases",
        )
        .await;
    let left_out = "select data::text from postrider.event";
    let expected = r#"{"op": "created", "key": {"id": 1}, "values_left_out": true}"#;
    assert_eq!(fixture.texts(left_out).await, [expected]);
    let unwatch = "select postrider.unwatch('purchases', 'order.changed')::text";
    assert_eq!(fixture.texts(unwatch).await, ["true"]);
    assert_eq!(fixture.texts(unwatch).await, ["false"]);
    fixture.sql("insert into purchases values (2)").await;
    assert_eq!(fixture.count("select count(*) from postrider.event").await, 1);
}
