//! Every driver writes the same rows, is refused alike, and settles a job alike.

mod complete;
pub(crate) mod drivers;
mod refusals;

use postrider::{Error, NewEvent, Recorder, Transaction, TypedEvent, Uuid};
use serde_json::value::RawValue;

use crate::fixture::Fixture;
use drivers::{Driver, End, Work};

/// Digits that no binary number keeps.
const NUMBERS: &str = r#"{"big": 123456789012345678901234567890, "zeros": 1.10, "tiny": -1e-30,
    "exact": 0.1000000000000000055511151231257827, "text": "💌 \"\\u0000\\"}"#;

const CALLERS_ID: Uuid = Uuid::from_u128(0x0198_c0ff_ee00_7000_8000_0000_0000_0001);

#[derive(serde::Serialize)]
struct OrderPlaced<'a> {
    order_id: i64,
    note: &'a str,
}

impl TypedEvent for OrderPlaced<'_> {
    const TYPE: &'static str = "order.placed";
}

/// One event of each shape.
fn shapes() -> Vec<NewEvent> {
    let new = |subject: &str| NewEvent::new("order.placed", subject).unwrap();
    let raw = RawValue::from_string(NUMBERS.to_owned()).unwrap();
    vec![
        OrderPlaced { order_id: 7, note: "naïve, 'quoted' and \\ $1" }.about("order:7").unwrap(),
        new("raw").raw_json(raw),
        new("null").data(&()).unwrap(),
        new("bytes").bytes("application/x-protobuf", vec![0, 1, 0xFF, b'\\']).unwrap(),
        new("routed")
            .key("customer:3")
            .and_then(|event| event.tenant("acme"))
            .and_then(|event| event.header("traceparent", "00-ab-cd-01"))
            .and_then(|event| event.header("X-Note", "päckchen"))
            .unwrap(),
        new("named").id(CALLERS_ID),
    ]
}

/// Records each event by itself, the typed one through its own method, then all as a batch.
struct RecordAll(Recorder);

impl Work for RecordAll {
    type Output = Result<Vec<Uuid>, Error>;

    async fn run<T: Transaction>(self, transaction: &mut T) -> Self::Output {
        let typed = OrderPlaced { order_id: 1, note: "" };
        let mut ids = vec![self.0.record_typed(transaction, "order:1", &typed).await?];
        for event in shapes() {
            ids.push(self.0.record(transaction, &event).await?);
        }
        let mut batch = shapes();
        // The caller's id is used up: a further event needs one of its own.
        batch.last_mut().unwrap().id = None;
        ids.extend(self.0.record_many(transaction, &batch).await?);
        assert_eq!(self.0.record(transaction, &shapes()[5]).await?, CALLERS_ID, "known already");
        assert!(self.0.record_many(transaction, &[]).await?.is_empty());
        Ok(ids)
    }
}

/// What is owed, without ids, places and times.
const OWED: &str = "select concat_ws(' | ', e.type, e.subject, e.key, e.tenant, e.data, e.body,
    e.content_type, e.headers) from postrider.owed o join postrider.event e using (seq, occurred_at)
    order by seq";

#[tokio::test(flavor = "multi_thread")]
async fn every_driver_writes_the_same_rows() {
    let numbers = "{\"big\": 123456789012345678901234567890, \"text\": \"💌 \\\"\\\\u0000\\\\\", \
        \"tiny\": -0.000000000000000000000000000001, \
        \"exact\": 0.1000000000000000055511151231257827, \"zeros\": 1.10}";
    let shapes = [
        "order.placed | order:7 | order:7 |  | \
            {\"note\": \"naïve, 'quoted' and \\\\ $1\", \"order_id\": 7}",
        &format!("order.placed | raw | raw |  | {numbers}"),
        "order.placed | null | null |  | null",
        r"order.placed | bytes | bytes |  | \x0001ff5c | application/x-protobuf",
        "order.placed | routed | customer:3 | acme | {} | \
            {\"X-Note\": \"päckchen\", \"traceparent\": \"00-ab-cd-01\"}",
        "order.placed | named | named |  | {}",
    ];
    let first = [r#"order.placed | order:1 | order:1 |  | {"note": "", "order_id": 1}"#];
    let expected: Vec<&str> = first.into_iter().chain(shapes).chain(shapes).collect();
    for driver in Driver::ALL {
        let fixture = Fixture::new().await;
        fixture.declare(&["order.placed"]).await;
        let work = RecordAll(fixture.recorder.clone());
        let ids = driver.run(&fixture.db.url(), End::Commit, work).await.unwrap();
        assert_eq!(fixture.texts(OWED).await, expected, "{driver:?}");
        let by_place = "select id::text from postrider.event order by seq";
        let ids: Vec<String> = ids.iter().map(Uuid::to_string).collect();
        assert_eq!(fixture.texts(by_place).await, ids, "{driver:?}");
        assert_eq!(ids[6], CALLERS_ID.to_string(), "{driver:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_leaves_nothing_with_any_driver() {
    let fixture = Fixture::new().await;
    fixture.declare(&["order.placed"]).await;
    let left = "select (select count(*) from postrider.event) + (select count(*) from \
        postrider.owed) + (select count(*) from postrider.record_key)";
    for driver in Driver::ALL {
        let work = RecordAll(fixture.recorder.clone());
        driver.run(&fixture.db.url(), End::RollBack, work).await.unwrap();
        assert_eq!(fixture.count(left).await, 0, "{driver:?}");
    }
}

/// Records three times, then counts what the connection keeps prepared for it.
struct Prepared(Recorder);

impl Work for Prepared {
    type Output = Option<String>;

    async fn run<T: Transaction>(self, transaction: &mut T) -> Self::Output {
        for event in shapes().iter().take(3) {
            self.0.record(transaction, event).await.unwrap();
        }
        let kept = "select count(*)::text from pg_prepared_statements
            where position('.record' || '(' in statement) > 0";
        transaction.call(kept, &[]).await.unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_prepared_once_for_a_connection_or_never_so_that_it_is_one_round_trip() {
    let fixture = Fixture::new().await;
    fixture.declare(&["order.placed"]).await;
    for driver in Driver::ALL {
        let work = Prepared(fixture.recorder.clone());
        let kept = driver.run(&fixture.db.url(), End::Commit, work).await;
        // tokio-postgres sends everything at once and so needs to keep nothing.
        let expected = if *driver == Driver::TokioPostgres { "0" } else { "1" };
        assert_eq!(kept.as_deref(), Some(expected), "{driver:?}");
    }
}
