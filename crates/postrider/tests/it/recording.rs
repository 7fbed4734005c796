//! Recording: bad input is refused at once, with a code, the field and the reason.

use postrider::{ErrorKind, NewEvent};
use serde_json::value::RawValue;
use tokio_postgres::Client;

use crate::fixture::Fixture;

/// A call, its SQLSTATE, the field it names, and a part of what it says.
const REFUSED: &[(&str, &str, Option<&str>, &str)] = &[
    ("record(null, 's')", "PR002", Some("type"), "is empty"),
    ("record('', 's')", "PR002", Some("type"), "is empty"),
    ("record(repeat('a', 256), 's')", "PR002", Some("type"), "256 bytes long, at most 255"),
    ("record('a..b', 's')", "PR002", Some("type"), "no dotted name"),
    ("record('.a', 's')", "PR002", Some("type"), "no dotted name"),
    ("record('a.', 's')", "PR002", Some("type"), "no dotted name"),
    ("record('a.*', 's')", "PR002", Some("type"), "no dotted name"),
    ("record('a b', 's')", "PR002", Some("type"), "no dotted name"),
    ("record('é', 's')", "PR002", Some("type"), "no dotted name"),
    ("record(E'a\\nb', 's')", "PR002", Some("type"), "control character"),
    ("record('postrider', 's')", "PR002", Some("type"), "reserved"),
    ("record('postrider.order', 's')", "PR002", Some("type"), "reserved"),
    ("record('postrider.declared', 's')", "PR002", Some("type"), "reserved"),
    ("record('A.B', 's')", "PR001", Some("type"), "not declared"),
    ("record('a.b', null)", "PR002", Some("subject"), "is empty"),
    ("record('a.b', '')", "PR002", Some("subject"), "is empty"),
    ("record('a.b', repeat('a', 1025))", "PR002", Some("subject"), "1025 bytes long, at most 1024"),
    ("record('a.b', repeat('é', 513))", "PR002", Some("subject"), "1026 bytes"),
    ("record('a.b', E'a\\tb')", "PR002", Some("subject"), "control character"),
    ("record('a.b', E'a\\nb')", "PR002", Some("subject"), "control character"),
    ("record('a.b', 'a' || chr(127))", "PR002", Some("subject"), "control character"),
    ("record('a.b', 'a' || chr(133))", "PR002", Some("subject"), "control character"),
    ("record('a.b', 's', key => '')", "PR002", Some("key"), "is empty"),
    ("record('a.b', 's', key => repeat('k', 1025))", "PR002", Some("key"), "1025 bytes"),
    ("record('a.b', 's', key => E'\\r')", "PR002", Some("key"), "control character"),
    ("record('a.b', 's', tenant => null)", "PR002", Some("tenant"), "is empty"),
    ("record('a.b', 's', tenant => repeat('t', 256))", "PR002", Some("tenant"), "256 bytes"),
    ("record('a.b', 's', tenant => E'\\u0001')", "PR002", Some("tenant"), "control character"),
    ("record('a.b', 's', null)", "PR002", Some("data"), "is missing"),
    (r#"record('a.b', 's', '{"x": "a\u0000b"}')"#, "22P05", None, "Unicode escape"),
    (r#"record('a.b', 's', '{"a\u0000b": 1}')"#, "22P05", None, "Unicode escape"),
    (r#"record('a.b', 's', '{"x": "\ud800"}')"#, "22P02", None, "json"),
    (r#"record('a.b', 's', '{"x": "\udc00 "}')"#, "22P02", None, "json"),
    (r#"record('a.b', 's', '{"\ud800x": 1}')"#, "22P02", None, "json"),
    ("record('a.b', 's', '{')", "22P02", None, "json"),
    ("record('a.b', 's', '1E200000')", "22003", None, "overflow"),
    (
        "record('a.b', 's', to_jsonb(repeat('a', 262143)))",
        "PR003",
        Some("data"),
        "262145 bytes long, at most 262144",
    ),
    (
        "record('a.b', 's', body => decode(repeat('00', 262145), 'hex'), content_type => 'a/b')",
        "PR003",
        Some("data"),
        "262145",
    ),
    ("record('a.b', 's', headers => '[]')", "PR002", Some("headers"), "is a JSON array"),
    ("record('a.b', 's', headers => 'null')", "PR002", Some("headers"), "is a JSON null"),
    ("record('a.b', 's', headers => '\"x\"')", "PR002", Some("headers"), "is a JSON string"),
    ("record('a.b', 's', headers => '{\"x\": 1}')", "PR002", Some("headers"), "the value of x"),
    ("record('a.b', 's', headers => '{\"x\": null}')", "PR002", Some("headers"), "the value of x"),
    (
        "record('a.b', 's', headers => '{\"x\": \"a\\r\\nb: c\"}')",
        "PR002",
        Some("headers"),
        "the value of x",
    ),
    ("record('a.b', 's', headers => '{\"\": \"x\"}')", "PR002", Some("headers"), "no header name"),
    (
        "record('a.b', 's', headers => '{\"a b\": \"x\"}')",
        "PR002",
        Some("headers"),
        "no header name",
    ),
    (
        "record('a.b', 's', headers => '{\"a:\": \"x\"}')",
        "PR002",
        Some("headers"),
        "no header name",
    ),
    (
        "record('a.b', 's', headers => jsonb_build_object(repeat('n', 129), 'x'))",
        "PR002",
        Some("headers"),
        "no header name",
    ),
    (
        "record('a.b', 's', headers => jsonb_build_object('x', repeat('v', 8192)))",
        "PR002",
        Some("headers"),
        "at most 8192",
    ),
    (
        "record('a.b', 's', headers => jsonb_build_object('x', repeat('v', 8184)))",
        "PR002",
        Some("headers"),
        "take 8193 bytes together, at most 8192",
    ),
    (
        "record('a.b', 's', body => 'x', content_type => 'a/' || repeat('b', 254))",
        "PR002",
        Some("content_type"),
        "256 bytes long, at most 255",
    ),
    (
        "record('a.b', 's', headers => '{\"webhook-id\": \"x\"}')",
        "PR002",
        Some("headers"),
        "reserved",
    ),
    (
        "record('a.b', 's', headers => '{\"Webhook-Id\": \"x\"}')",
        "PR002",
        Some("headers"),
        "reserved",
    ),
    ("record('a.b', 's', headers => '{\"ce-type\": \"x\"}')", "PR002", Some("headers"), "reserved"),
    ("record('a.b', 's', headers => '{\"CE-Type\": \"x\"}')", "PR002", Some("headers"), "reserved"),
    (
        "record('a.b', 's', headers => '{\"postrider-x\": \"x\"}')",
        "PR002",
        Some("headers"),
        "reserved",
    ),
    (
        "record('a.b', 's', headers => '{\"Content-Type\": \"x\"}')",
        "PR002",
        Some("headers"),
        "reserved",
    ),
    ("record('a.b', 's', body => 'x')", "PR002", Some("content_type"), "is empty"),
    ("record('a.b', 's', content_type => 'a/b')", "PR002", Some("body"), "is missing"),
    (
        "record('a.b', 's', '{\"x\": 1}', body => 'x', content_type => 'a/b')",
        "PR002",
        Some("data"),
        "not both",
    ),
    (
        "record('a.b', 's', body => 'x', content_type => 'png')",
        "PR002",
        Some("content_type"),
        "no media type",
    ),
    (
        "record('a.b', 's', body => 'x', content_type => E'a/b\\r\\n')",
        "PR002",
        Some("content_type"),
        "control",
    ),
    ("record('a.b', 's', id => 'x')", "22P02", None, "uuid"),
];

async fn refused(client: &Client, call: &str) -> tokio_postgres::Error {
    match client.batch_execute(&format!("select postrider.{call}")).await {
        Ok(()) => panic!("{call} was taken"),
        Err(error) => error,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_input_is_refused_with_a_code_the_field_and_the_reason() {
    let fixture = Fixture::new().await;
    fixture.declare(&["a.b", "postrider.declared"]).await;
    for (call, code, field, says) in REFUSED {
        let error = refused(&fixture.client, call).await;
        let report = error.as_db_error().expect(call);
        assert_eq!(report.code().code(), *code, "{call}: {report:?}");
        assert_eq!(report.column(), *field, "{call}: {report:?}");
        assert!(report.message().contains(says), "{call}: {report:?}");
    }
    for table in ["event", "owed", "record_key"] {
        let sql = format!("select count(*) from postrider.{table}");
        assert_eq!(fixture.count(&sql).await, 0, "{table}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_just_within_the_limits_is_taken() {
    let fixture = Fixture::new().await;
    let long = "a".repeat(255);
    fixture.declare(&["a.b", "A.x_y-z", &long]).await;
    let calls = [
        "record(repeat('a', 255), 's')",
        "record('A.x_y-z', repeat('é', 512))",
        "record('a.b', 's', key => repeat('k', 1024), tenant => repeat('t', 255))",
        "record('a.b', 's', to_jsonb(repeat('a', 262141)))",
        "record('a.b', 's', to_jsonb(repeat('a', 262142)))",
        "record('a.b', 's', 'null')",
        "record('a.b', 's', '[]')",
        "record('a.b', 's', '\"\"')",
        "record('a.b', 's', headers => '{}')",
        "record('a.b', 's', headers => jsonb_build_object('x', repeat('v', 8183)))",
        "record('a.b', 's', headers => '{\"traceparent\": \"00-1\", \"cell\": \"\"}')",
        "record('a.b', 's', headers => jsonb_build_object(repeat('n', 128), 'x'))",
        "record('a.b', 's', body => '', content_type => 'a/b')",
        "record('a.b', 's', body => '', content_type => 'a/' || repeat('b', 253))",
        "record('a.b', 's', body => decode(repeat('00', 262144), 'hex'), content_type => 'a/b')",
    ];
    for call in calls {
        let sql = format!("select postrider.{call}");
        fixture
            .client
            .batch_execute(&sql)
            .await
            .unwrap_or_else(|error| panic!("{call}: {error:?}"));
    }
    let events = fixture.count("select count(*) from postrider.event").await;
    assert_eq!(usize::try_from(events), Ok(calls.len()));
    assert_eq!(fixture.count("select count(*) from postrider.event where headers = '{}'").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_limit_of_data_is_a_setting_that_counts_the_stored_text() {
    let fixture = Fixture::new().await;
    fixture.declare(&["a.b"]).await;
    let set = "update postrider.setting set data_bytes_max = 2000";
    fixture.client.batch_execute(set).await.unwrap();
    // What PostgreSQL stores has one space after a colon, whatever was sent: `{"a": "…"}`.
    let sent = |spaces: usize, letters: usize| {
        let (spaces, letters) = (" ".repeat(spaces), "x".repeat(letters));
        format!("record('a.b', 's', '{{\"a\":{spaces}\"{letters}\"}}')")
    };
    for (spaces, letters) in [(0, 1991), (5_000, 1991), (0, 1990)] {
        let sql = format!("select postrider.{}", sent(spaces, letters));
        fixture.client.batch_execute(&sql).await.unwrap();
    }
    assert_eq!(
        fixture.count("select max(octet_length(data::text))::bigint from postrider.event").await,
        2000
    );
    for spaces in [0, 1, 5_000] {
        let error = refused(&fixture.client, &sent(spaces, 1992)).await;
        let report = error.as_db_error().unwrap();
        assert_eq!(report.code().code(), "PR003");
        assert!(report.message().contains("2001 bytes long, at most 2000"), "{report:?}");
        assert!(report.hint().is_some_and(|hint| hint.contains("data_bytes_max")), "{report:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_undeclared_type_is_refused_with_the_nearest_declared_ones() {
    let fixture = Fixture::new().await;
    let error = refused(&fixture.client, "record('order.placed', 's')").await;
    let hint = error.as_db_error().unwrap().hint().unwrap().to_owned();
    assert!(hint.contains("No type is declared"), "{hint}");
    fixture.declare(&["order.placed", "order.paid", "customer.moved", "x"]).await;
    let error = refused(&fixture.client, "record('order.palced', 's')").await;
    let hint = error.as_db_error().unwrap().hint().unwrap().to_owned();
    assert!(hint.contains("alike: order.pla"), "the nearest comes first: {hint}");
    assert!(!hint.contains("customer"), "{hint}");
    let error = refused(&fixture.client, "record('Order.Placed', 's')").await;
    let hint = error.as_db_error().unwrap().hint().unwrap().to_owned();
    assert!(hint.contains("order.placed"), "{hint}");
    let error = refused(&fixture.client, "record('zzz', 's')").await;
    let hint = error.as_db_error().unwrap().hint().unwrap().to_owned();
    assert!(hint.contains("types list"), "{hint}");
    let allow = "update postrider.setting set undeclared_types = true";
    fixture.client.batch_execute(allow).await.unwrap();
    fixture.client.batch_execute("select postrider.record('order.palced', 's')").await.unwrap();
    for (call, code) in
        [("record('order..x', 's')", "PR002"), ("record('postrider.x', 's')", "PR002")]
    {
        assert_eq!(refused(&fixture.client, call).await.code().unwrap().code(), code, "{call}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rust_interface_gives_each_refusal_its_kind_and_field() {
    let mut fixture = Fixture::new().await;
    fixture.declare(&["a.b"]).await;
    let event = || NewEvent::new("a.b", "s").unwrap();
    let raw = |text: &str| RawValue::from_string(text.to_owned()).unwrap();
    let mut empty_subject = event();
    empty_subject.subject = String::new();
    let mut nul_subject = event();
    nul_subject.subject = "a\0b".into();
    let mut nul_header = event();
    nul_header.headers.insert("x".into(), "a\0b".into());
    let mut reserved_header = event();
    reserved_header.headers.insert("webhook-id".into(), "x".into());
    let mut long_tenant = event();
    long_tenant.tenant = "t".repeat(256);
    let cases = [
        (NewEvent::new("a.c", "s").unwrap(), ErrorKind::UndeclaredType, Some("type")),
        (NewEvent::new("postrider.x", "s").unwrap(), ErrorKind::Invalid, Some("type")),
        (empty_subject, ErrorKind::Invalid, Some("subject")),
        (nul_subject, ErrorKind::Invalid, Some("subject")),
        (nul_header, ErrorKind::Invalid, Some("headers")),
        (reserved_header, ErrorKind::Invalid, Some("headers")),
        (long_tenant, ErrorKind::Invalid, Some("tenant")),
        (event().data("x\0y").unwrap(), ErrorKind::Invalid, Some("data")),
        (event().raw_json(raw(r#"{"\ud800": 1}"#)), ErrorKind::Invalid, Some("data")),
        (event().raw_json(raw("1E200000")), ErrorKind::Invalid, None),
        (event().data(&"a".repeat(262_143)).unwrap(), ErrorKind::TooLarge, Some("data")),
        (event().bytes("a/b", vec![0; 262_145]).unwrap(), ErrorKind::TooLarge, Some("data")),
    ];
    for (event, kind, field) in cases {
        let shown = format!("{event:.300?}");
        for many in [false, true] {
            let result = match many {
                false => fixture.recorder.record(&mut fixture.client, &event).await.map(|_| ()),
                true => {
                    let batch = [NewEvent::new("a.b", "s").unwrap(), event.clone()];
                    fixture.recorder.record_many(&mut fixture.client, &batch).await.map(|_| ())
                }
            };
            let error = result.expect_err(&shown);
            assert_eq!(error.kind(), kind, "many: {many}: {shown}: {error:?}");
            assert_eq!(error.field(), field, "many: {many}: {shown}: {error:?}");
            assert_eq!(error.blame(), postrider::Blame::Caller);
        }
    }
    assert_eq!(fixture.count("select count(*) from postrider.event").await, 0);
}
