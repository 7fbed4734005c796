//! What is refused, is refused alike.

use postrider::{Error, ErrorKind, NewEvent, Recorder, Transaction, Uuid};
use postrider_testkit::Proxy;
use serde_json::value::RawValue;

use super::drivers::{Driver, End, Work};
use crate::fixture::Fixture;

const TAKEN: Uuid = Uuid::from_u128(7);

/// Something that is to be refused.
#[derive(Clone)]
enum Attempt {
    Record(NewEvent),
    Batch(Vec<NewEvent>),
    /// The function itself, past what the recorder would refuse.
    Function(&'static str, &'static str),
}

struct Try(Recorder, Attempt);

impl Work for Try {
    type Output = Error;

    async fn run<T: Transaction>(self, transaction: &mut T) -> Error {
        let answer = match &self.1 {
            Attempt::Record(event) => self.0.record(transaction, event).await.map(|_| ()),
            Attempt::Batch(events) => self.0.record_many(transaction, events).await.map(|_| ()),
            Attempt::Function(event_type, subject) => {
                let sql = "select postrider.record($1, $2)::text";
                let params = [Some(*event_type), Some(*subject)];
                transaction.call(sql, &params).await.map(|_| ()).map_err(Error::from)
            }
        };
        answer.expect_err("it is refused")
    }
}

fn event(event_type: &str) -> NewEvent {
    NewEvent::new(event_type, "order:1").unwrap()
}

fn raw(text: &str) -> NewEvent {
    event("order.placed").raw_json(RawValue::from_string(text.to_owned()).unwrap())
}

fn without_subject() -> NewEvent {
    let mut event = event("order.placed");
    event.subject.clear();
    event
}

/// An attempt, how it is to be refused, and with which text.
struct Case {
    attempt: Attempt,
    kind: ErrorKind,
    sqlstate: Option<&'static str>,
    field: &'static str,
    hint: Option<&'static str>,
    text: &'static str,
}

/// Refused before a round trip.
fn refused_here(attempt: Attempt, field: &'static str, text: &'static str) -> Case {
    Case { attempt, kind: ErrorKind::Invalid, sqlstate: None, field, hint: None, text }
}

fn cases_before_a_round_trip() -> Vec<Case> {
    use Attempt::{Batch, Record};
    let batch = vec![event("order.placed"), without_subject()];
    let nul = r"data: holds \u0000, the NUL character, which cannot be stored";
    let half = r"data: holds \ud83d, half of a surrogate pair, which is no character";
    vec![
        refused_here(Record(without_subject()), "subject", "subject: is empty"),
        refused_here(Batch(batch), "subject", "event 2 of the batch: subject: is empty"),
        refused_here(Record(raw(r#"{"a": "\u0000"}"#)), "data", nul),
        refused_here(Record(raw(r#"["\ud83d"]"#)), "data", half),
    ]
}

fn cases_in_the_database() -> Vec<Case> {
    let undeclared = Case {
        attempt: Attempt::Record(event("order.plcaed")),
        kind: ErrorKind::UndeclaredType,
        sqlstate: Some("PR001"),
        field: "type",
        hint: Some("Declared and alike: order.placed."),
        text: "type: order.plcaed is not declared",
    };
    let undeclared_in_batch = Case {
        attempt: Attempt::Batch(vec![event("order.placed"), event("order.plcaed")]),
        text: "event 2 of the batch: type: order.plcaed is not declared",
        ..undeclared
    };
    let empty = Case {
        attempt: Attempt::Function("order.placed", ""),
        sqlstate: Some("PR002"),
        ..refused_here(Attempt::Batch(vec![]), "subject", "subject: is empty")
    };
    let large = Case {
        attempt: Attempt::Record(event("order.placed").data(&"x".repeat(2000)).unwrap()),
        kind: ErrorKind::TooLarge,
        sqlstate: Some("PR003"),
        field: "data",
        hint: Some(
            "Put large content elsewhere and record where it is, or raise the setting \
             data_bytes_max.",
        ),
        text: "data: is 2002 bytes long, at most 1024 fit",
    };
    let taken = Case {
        attempt: Attempt::Record(event("order.placed").id(TAKEN)),
        kind: ErrorKind::IdTaken,
        sqlstate: Some("PR004"),
        field: "id",
        hint: Some("An id stands for one event; use a new id for a new event."),
        text: "id: 00000000-0000-0000-0000-000000000007 was recorded before with other content",
    };
    vec![undeclared, undeclared_in_batch, empty, large, taken]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_event_gives_the_same_error_with_every_driver() {
    let mut fixture = Fixture::new().await;
    fixture.declare(&["order.placed", "invoice.paid"]).await;
    let limit = "update postrider.setting set data_bytes_max = 1024";
    fixture.client.execute(limit, &[]).await.unwrap();
    let first = event("order.placed").id(TAKEN).data(&"other content").unwrap();
    fixture.recorder.record(&mut fixture.client, &first).await.unwrap();
    let cases = cases_before_a_round_trip().into_iter().chain(cases_in_the_database());
    for Case { attempt, kind, sqlstate, field, hint, text } in cases {
        for driver in Driver::ALL {
            let work = Try(fixture.recorder.clone(), attempt.clone());
            let error = driver.run(&fixture.db.url(), End::Commit, work).await;
            let told = (error.kind(), error.sqlstate(), error.field(), error.hint());
            assert_eq!(told, (kind, sqlstate, Some(field), hint), "{driver:?}: {error:?}");
            assert_eq!(error.to_string(), text, "{driver:?}");
        }
    }
    assert_eq!(fixture.count("select count(*) from postrider.event").await, 1, "the first one");
}

/// Goes on after a refusal.
struct GoOn(Recorder, NewEvent);

impl Work for GoOn {
    type Output = Result<Uuid, Error>;

    async fn run<T: Transaction>(self, transaction: &mut T) -> Self::Output {
        self.0.record(transaction, &self.1).await.expect_err("it is refused");
        self.0.record(transaction, &event("order.placed")).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_by_the_database_ends_the_transaction_and_one_before_it_does_not() {
    for driver in Driver::ALL {
        let fixture = Fixture::new().await;
        fixture.declare(&["order.placed"]).await;
        let go_on = |event: NewEvent| {
            let url = fixture.db.url();
            let work = GoOn(fixture.recorder.clone(), event);
            async move { driver.run(&url, End::Commit, work).await }
        };
        let sql = "select count(*) from postrider.event";
        let after = go_on(event("order.plcaed")).await.expect_err("the transaction is aborted");
        assert_eq!(after.kind(), ErrorKind::Database, "{driver:?}: {after:?}");
        assert_eq!(fixture.count(sql).await, 0, "{driver:?}");
        go_on(without_subject()).await.unwrap();
        assert_eq!(fixture.count(sql).await, 1, "{driver:?}");
    }
}

/// Loses the connection, then records.
struct Cut<'a>(Recorder, &'a Proxy);

impl Work for Cut<'_> {
    type Output = Error;

    async fn run<T: Transaction>(self, transaction: &mut T) -> Error {
        self.1.cut();
        self.0.record(transaction, &event("order.placed")).await.expect_err("nobody answers")
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_connection_is_unreachable_and_worth_another_try_with_every_driver() {
    let fixture = Fixture::new().await;
    for driver in Driver::ALL {
        let proxy = Proxy::to_database(&fixture.db.url()).await;
        let work = Cut(fixture.recorder.clone(), &proxy);
        let error = driver.run(&proxy.url_through(&fixture.db.url()), End::RollBack, work).await;
        assert_eq!(error.kind(), ErrorKind::Unreachable, "{driver:?}: {error:?}");
        assert_eq!(error.sqlstate(), None, "{driver:?}: {error:?}");
        assert!(error.is_transient(), "{driver:?}: {error:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_postgres_itself_refuses_is_told_as_far_as_the_driver_tells_it() {
    let fixture = Fixture::new().await;
    fixture.declare(&["order.placed"]).await;
    for driver in Driver::ALL {
        let work = Try(fixture.recorder.clone(), Attempt::Record(raw("[1e999999]")));
        let error = driver.run(&fixture.db.url(), End::Commit, work).await;
        let told = match driver {
            // diesel has no name for this one and keeps the SQLSTATE to itself.
            #[cfg(feature = "diesel-async")]
            Driver::Diesel => (ErrorKind::Database, None),
            _ => (ErrorKind::Invalid, Some("22003")),
        };
        assert_eq!((error.kind(), error.sqlstate()), told, "{driver:?}: {error:?}");
        assert!(!error.is_transient(), "{driver:?}: {error:?}");
        assert!(error.to_string().contains("value overflows numeric format"), "{error}");
    }
}
