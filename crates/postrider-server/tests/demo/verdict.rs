//! The verdict must be able to fail: each kind of damage to what a run left is found, and only it.

use postrider_testkit::TestDatabase;

use crate::stage::ended;

/// Damage, the fields that must then differ from 0, and how it is undone.
struct Damage {
    what: &'static str,
    fields: &'static [&'static str],
    doing: &'static str,
    undoing: &'static str,
}

const DAMAGES: &[Damage] = &[
    Damage {
        what: "a payment is missing in the ledger",
        fields: &["lost", "ledger_mismatch"],
        doing: "create table public.saved as select * from ledger limit 1;
            delete from ledger where event_id = (select event_id from public.saved)",
        undoing: "insert into ledger select * from public.saved; drop table public.saved",
    },
    Damage {
        what: "a payment is booked twice",
        fields: &["ledger_mismatch"],
        doing: "create table public.saved as select * from ledger limit 1;
            insert into ledger select * from public.saved",
        undoing: "delete from ledger where ctid = (select max(ctid) from ledger
            where event_id = (select event_id from public.saved)); drop table public.saved",
    },
    Damage {
        what: "a payment is booked with another amount",
        fields: &["ledger_mismatch"],
        doing: "create table public.saved as select * from ledger limit 1;
            update ledger set amount_cents = amount_cents + 1
            where event_id = (select event_id from public.saved)",
        undoing: "update ledger set amount_cents = amount_cents - 1
            where event_id = (select event_id from public.saved); drop table public.saved",
    },
    Damage {
        what: "an event was never audited",
        fields: &["lost"],
        doing: "create table public.saved as select * from audit
            where event_id = (select event_id from audit limit 1);
            delete from audit where event_id in (select event_id from public.saved)",
        undoing: "insert into audit select * from public.saved; drop table public.saved",
    },
    Damage {
        what: "an event was audited twice in a first attempt, as two jobs would",
        fields: &["duplicate_fanouts"],
        doing: "create table public.saved as select * from audit limit 1;
            insert into audit select * from public.saved",
        undoing: "delete from audit where ctid = (select max(ctid) from audit
            where event_id = (select event_id from public.saved)
            and attempt = (select attempt from public.saved)); drop table public.saved",
    },
    Damage {
        what: "a search row shows an older state",
        fields: &["lost"],
        doing: "create table public.saved as select * from search_row where revision > 1 limit 1;
            update search_row set revision = revision - 1, status = 'placed'
            where order_id = (select order_id from public.saved)",
        undoing: "update search_row s set revision = o.revision, status = o.status
            from public.saved o where o.order_id = s.order_id; drop table public.saved",
    },
    Damage {
        what: "an event was recorded for an order that was rolled back",
        fields: &["phantom"],
        doing: "select postrider_demo.record('order.placed', 'order:' || order_id)
            from abandoned limit 1",
        undoing: "delete from postrider_demo.owed;
            delete from postrider_demo.event e where e.id not in (select event_id from journal)",
    },
    Damage {
        what: "a handler saw an event that was rolled back",
        fields: &["phantom"],
        doing: "insert into audit select event_id, 1, true, 'x' from abandoned limit 1",
        undoing: "delete from audit where worker = 'x'",
    },
    Damage {
        what: "an order that was rolled back can be found",
        fields: &["phantom"],
        doing: "insert into search_row select order_id, 'placed', 1, 1 from abandoned
            where order_id not in (select id from customer_order) limit 1",
        undoing: "delete from search_row where order_id not in (select id from customer_order)",
    },
    Damage {
        what: "a subscription got a second job for an event",
        fields: &["duplicate_fanouts"],
        doing: "insert into postrider_demo.job_history
            select -1, event_seq, event_occurred_at, finished_at, started_at, created_at,
              session_id, subscription_id, attempt, extra_attempts, state, origin, priority, tenant,
              last_error, output
            from postrider_demo.job_history limit 1",
        undoing: "delete from postrider_demo.job_history where id = -1",
    },
    Damage {
        what: "an event was committed and its row is gone",
        fields: &["lost"],
        doing: "create table public.saved as select * from postrider_demo.event limit 1;
            delete from postrider_demo.event where id in (select id from public.saved)",
        undoing: "insert into postrider_demo.event select * from public.saved;
            drop table public.saved",
    },
    Damage {
        what: "an event was never fanned out",
        fields: &["lost", "fanned_out"],
        doing: "create table public.saved as select * from postrider_demo.fanout limit 1;
            delete from postrider_demo.fanout where seq in (select seq from public.saved)",
        undoing: "insert into postrider_demo.fanout select * from public.saved;
            drop table public.saved",
    },
];

/// What the verdict counts against a run, by field: `fanned_out` when it is not what was recorded.
async fn complaints(database: &TestDatabase, code: i32) -> Vec<&'static str> {
    let ended = ended(database, "--verdict-only --chaos --json").await;
    assert_eq!(ended.code(), Some(code), "{ended:#?}");
    let verdict = ended.json();
    let mut found: Vec<&str> = ["lost", "duplicate_fanouts", "phantom", "ledger_mismatch"]
        .into_iter()
        .filter(|field| verdict[*field] != 0)
        .collect();
    if verdict["fanned_out"] != verdict["recorded"] {
        found.push("fanned_out");
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn the_verdict_finds_every_kind_of_damage() {
    let database = TestDatabase::create().await;
    let none_kept = ended(&database, "--verdict-only").await;
    assert_eq!(none_kept.code(), Some(2), "{none_kept:#?}");
    let run = ended(&database, "--events 300 --rate 100 --chaos --keep --json").await;
    assert_eq!(run.code(), Some(0), "{run:#?}");
    assert_eq!(complaints(&database, 0).await, [""; 0], "before any damage");
    let client = database.client().await;
    client.batch_execute("set search_path = postrider_demo_shop").await.unwrap();
    for damage in DAMAGES {
        client
            .batch_execute(damage.doing)
            .await
            .unwrap_or_else(|e| panic!("{}: {e:?}", damage.what));
        assert_eq!(complaints(&database, 1).await, damage.fields, "{}", damage.what);
        client
            .batch_execute(damage.undoing)
            .await
            .unwrap_or_else(|e| panic!("{}: {e:?}", damage.what));
        assert_eq!(complaints(&database, 0).await, [""; 0], "after undoing: {}", damage.what);
    }
    client.batch_execute("delete from kill").await.unwrap();
    let unproven = ended(&database, "--verdict-only --chaos --json").await;
    assert_eq!(unproven.code(), Some(1), "chaos without a kill proves nothing: {unproven:#?}");
    assert_eq!(ended(&database, "--verdict-only --json").await.code(), Some(0));
    database.drop().await;
}
