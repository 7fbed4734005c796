//! What was recorded arrives as it was, and what was rolled back does not.

use postrider::{NewEvent, Payload, Subscription};
use postrider_testkit::wait_until;
use serde_json::value::RawValue;

use crate::collect::collector;
use crate::fixture::{Fixture, PATIENCE, event_type};

#[tokio::test(flavor = "multi_thread")]
async fn numbers_keep_their_digits_from_recording_to_the_handler() {
    let mut fixture = Fixture::new().await;
    let (handler, mut got) = collector();
    let engine = fixture.engine().declare(event_type("a.b"));
    let engine = engine.subscribe(Subscription::new("s", ["**"]).unwrap(), handler);
    let engine = engine.start().await.unwrap();
    let (huge, power) = ("1234567890".repeat(4), format!("1{}", "0".repeat(400)));
    for (sent, expected) in [
        ("9007199254740993", "9007199254740993"),
        ("-9223372036854775809", "-9223372036854775809"),
        ("18446744073709551615", "18446744073709551615"),
        (huge.as_str(), huge.as_str()),
        ("0.1234567890123456789", "0.1234567890123456789"),
        ("1.50", "1.50"),
        ("1E400", power.as_str()),
    ] {
        let text = RawValue::from_string(format!("[{sent}]")).unwrap();
        let event = NewEvent::new("a.b", "s").unwrap().raw_json(text);
        for many in [false, true] {
            match many {
                false => drop(fixture.recorder.record(&mut fixture.client, &event).await.unwrap()),
                true => {
                    let batch = std::slice::from_ref(&event);
                    fixture.recorder.record_many(&mut fixture.client, batch).await.unwrap();
                }
            }
            let delivery = got.next().await;
            let found = delivery.event.payload.as_json().unwrap();
            assert_eq!(found, format!("[{expected}]"), "many: {many}");
        }
    }
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_arrive_with_their_media_type() {
    let mut fixture = Fixture::new().await;
    let (handler, mut got) = collector();
    let engine = fixture.engine().declare(event_type("a.b"));
    let engine = engine.subscribe(Subscription::new("s", ["**"]).unwrap(), handler);
    let engine = engine.start().await.unwrap();
    let all: Vec<u8> = (0..=255).collect();
    for sent in [all, Vec::new(), b"{\"json\": \"by its looks\"}".to_vec()] {
        let event = NewEvent::new("a.b", "s").unwrap();
        let event = event.bytes("application/x-protobuf", sent.clone()).unwrap();
        fixture.recorder.record(&mut fixture.client, &event).await.unwrap();
        match got.next().await.event.payload {
            Payload::Bytes { content_type, body } => {
                assert_eq!((content_type.as_str(), body), ("application/x-protobuf", sent));
            }
            Payload::Json(text) => panic!("became JSON: {text}"),
        }
    }
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_to_a_savepoint_or_of_all_leaves_nothing_behind() {
    let mut fixture = Fixture::new().await;
    fixture.declare(&["a.b"]).await;
    fixture.client.batch_execute("create table business (n int)").await.unwrap();
    let with_id = || NewEvent::new("a.b", "s").unwrap().id(uuid::Uuid::new_v4());
    let mut transaction = fixture.client.transaction().await.unwrap();
    fixture.recorder.record(&mut transaction, &with_id()).await.unwrap();
    transaction.rollback().await.unwrap();
    let mut transaction = fixture.client.transaction().await.unwrap();
    transaction.execute("insert into business values (1)", &[]).await.unwrap();
    let mut savepoint = transaction.transaction().await.unwrap();
    fixture.recorder.record(&mut savepoint, &with_id()).await.unwrap();
    savepoint.rollback().await.unwrap();
    // A refusal within a savepoint leaves the rest of the transaction usable.
    let mut savepoint = transaction.transaction().await.unwrap();
    let refused = NewEvent::new("undeclared", "s").unwrap();
    fixture.recorder.record(&mut savepoint, &refused).await.unwrap_err();
    savepoint.rollback().await.unwrap();
    transaction.commit().await.unwrap();
    assert_eq!(fixture.count("select count(*) from business").await, 1);
    for table in ["event", "owed", "record_key"] {
        let sql = format!("select count(*) from postrider.{table}");
        assert_eq!(fixture.count(&sql).await, 0, "{table}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_partition_for_today_the_net_takes_the_event_and_it_is_delivered() {
    let mut fixture = Fixture::new().await;
    let drop_all = "do $$ declare p record; begin
        for p in select name from postrider.partitions_of('event') loop
          execute format('drop table postrider.%I', p.name);
        end loop; end $$";
    fixture.client.batch_execute(drop_all).await.unwrap();
    // An open writer of the net keeps the engine from making partitions; it must go on without.
    let writer = fixture.db.client().await;
    let open = "begin; lock table postrider.event_default in row exclusive mode";
    writer.batch_execute(open).await.unwrap();
    let (handler, mut got) = collector();
    let engine = fixture.engine().declare(event_type("a.b"));
    let engine = engine.subscribe(Subscription::new("s", ["**"]).unwrap(), handler);
    let engine = engine.start().await.unwrap();
    engine.maintain().await.unwrap();
    let id = fixture.record("a.b", "s").await;
    assert_eq!(fixture.count("select count(*) from postrider.event_default").await, 1);
    assert_eq!(got.next().await.event.id, id);
    engine.shutdown().await;
    assert_eq!(fixture.count("select count(*) from postrider.job_history").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn with_the_wake_up_off_a_transaction_can_be_prepared_even_while_a_relay_sleeps() {
    let fixture = Fixture::new().await;
    fixture.declare(&["a.b"]).await;
    let most: String =
        fixture.client.query_one("show max_prepared_transactions", &[]).await.unwrap().get(0);
    if most == "0" {
        eprintln!("not run: the server has max_prepared_transactions = 0");
        return;
    }
    // A relay that sleeps holds the bell alone, so writers must ring.
    let sleeper = fixture.db.client().await;
    let bell = "select pg_advisory_lock(bell) from postrider.wake_keys()";
    sleeper.batch_execute(bell).await.unwrap();
    let ringing = "begin; select postrider.record('a.b', 's'); prepare transaction 'ringing'";
    let refused = fixture.client.batch_execute(ringing).await.unwrap_err();
    assert_eq!(refused.code().unwrap().code(), "0A000", "it did not ring: {refused:?}");
    fixture.client.batch_execute("rollback").await.unwrap();
    let name = fixture.db.name();
    let silent = format!(
        "begin; set local postrider.wake = off; select postrider.record('a.b', 's');
         prepare transaction '{name}'"
    );
    fixture.client.batch_execute(&silent).await.unwrap();
    assert_eq!(fixture.count("select count(*) from postrider.owed").await, 0);
    fixture.client.batch_execute(&format!("commit prepared '{name}'")).await.unwrap();
    assert_eq!(fixture.count("select count(*) from postrider.owed").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn five_thousand_events_of_one_transaction_are_fanned_out_once_each() {
    let mut fixture = Fixture::new().await;
    let engine = fixture.engine().declare(event_type("a.b"));
    let (handler, _got) = collector();
    let engine = engine.subscribe(Subscription::new("s", ["**"]).unwrap(), handler);
    let engine = engine.start().await.unwrap();
    let mut transaction = fixture.client.transaction().await.unwrap();
    for n in 0..5 {
        let batch: Vec<NewEvent> =
            (0..1_000).map(|i| NewEvent::new("a.b", format!("{n}/{i}")).unwrap()).collect();
        fixture.recorder.record_many(&mut transaction, &batch).await.unwrap();
    }
    transaction.commit().await.unwrap();
    wait_until("all are fanned out", PATIENCE, async || {
        let found = fixture.count("select count(*) from postrider.fanout").await;
        (found == 5_000).then_some(()).ok_or(format!("{found} are"))
    })
    .await;
    engine.shutdown().await;
    assert_eq!(fixture.count("select count(*) from postrider.owed").await, 0);
    let jobs = "select count(distinct event_seq) from (
        select event_seq from postrider.job union all select event_seq from
          postrider.job_history) j";
    assert_eq!(fixture.count(jobs).await, 5_000);
    let all = "select (select count(*) from postrider.job) + (select count(*) from
        postrider.job_history)";
    assert_eq!(fixture.count(all).await, 5_000);
}
