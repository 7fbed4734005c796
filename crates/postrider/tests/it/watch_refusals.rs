//! What cannot be watched is refused when the watch is made, with what to do.

use crate::watch::orders;

/// The arguments of `watch`, the code, and a part of the message.
const REFUSED: [(&str, &str, &str); 9] = [
    ("'orders', 'order.chnged', 'order:{id}'", "PR001", "not declared"),
    ("'orders', 'order.changed', 'order:{nr}'", "PR002", "has no column \"nr\""),
    ("'orders', 'order.changed', 'order:{state}'", "PR002", "\"state\" may be null"),
    ("'orders', 'order.changed', 'order:{list}'", "PR002", "of type integer[]"),
    ("'orders', 'order.changed', 'order:{id'", "PR002", "a brace without its pair"),
    ("'orders', 'order.changed', 'order:{id}', '{nr}'", "PR002", "has no column \"nr\""),
    ("'orders', 'order.changed', 'o', include => 'all'", "PR002", "none of none, new, old, both"),
    ("'keyless', 'order.changed', 'order:{id}'", "PR002", "has no primary key"),
    ("'seen', 'order.changed', 'order:{id}'", "PR002", "is a view"),
];

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_watched_is_refused_with_what_to_do() {
    let fixture = orders().await;
    let given = "alter table orders add column list int[] not null default '{}';
        create table keyless (id int not null); create view seen as select * from orders";
    fixture.client.batch_execute(given).await.unwrap();
    for (arguments, code, part) in REFUSED {
        let sql = format!("select postrider.watch({arguments})");
        let error = fixture.client.batch_execute(&sql).await.expect_err(&sql);
        let report = error.as_db_error().unwrap_or_else(|| panic!("{sql}: {error:?}"));
        assert_eq!(report.code().code(), code, "{sql}: {report}");
        assert!(report.message().contains(part), "{sql}: {report}");
    }
    assert_eq!(fixture.count("select count(*) from postrider.watch").await, 0);
}
