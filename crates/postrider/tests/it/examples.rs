//! The examples run, and the database has what they say.

use std::collections::BTreeSet;

use crate::fixture::Fixture;

#[expect(dead_code, reason = "a program has a `main`, which a test does not call")]
#[path = "../../examples/coalescing_indexer.rs"]
mod coalescing_indexer;
#[expect(dead_code, reason = "a program has a `main`, which a test does not call")]
#[path = "../../examples/exactly_once_handler.rs"]
mod exactly_once_handler;
#[expect(dead_code, reason = "a program has a `main`, which a test does not call")]
#[path = "../../examples/read_your_own_write.rs"]
mod read_your_own_write;
#[expect(dead_code, reason = "a program has a `main`, which a test does not call")]
#[path = "../../examples/record_in_transaction.rs"]
mod record_in_transaction;
#[expect(dead_code, reason = "a program has a `main`, which a test does not call")]
#[path = "../../examples/unique_job.rs"]
mod unique_job;

#[tokio::test(flavor = "multi_thread")]
async fn an_order_that_was_rolled_back_left_neither_row_nor_event() {
    let fixture = Fixture::new().await;
    let (forgotten, kept) = record_in_transaction::run(&fixture.db.url()).await.unwrap();
    assert_ne!(forgotten, kept);
    assert_eq!(fixture.texts("select customer from shop_order").await, ["Ada"]);
    let events =
        "select concat_ws(' ', id, type, subject, data ->> 'customer') from postrider.event
        where data -> 'order_id' = (select to_jsonb(id) from shop_order)";
    let id = fixture.texts("select id::text from shop_order").await.remove(0);
    let expected = [format!("{kept} order.placed order:{id} Ada")];
    assert_eq!(fixture.texts(events).await, expected);
    assert_eq!(fixture.count("select count(*) from postrider.event").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_index_ends_with_the_last_name_whatever_was_coalesced() {
    let fixture = Fixture::new().await;
    let names: Vec<String> = (1..=40).map(|number| format!("Lamp {number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let words = coalescing_indexer::run(&fixture.db.url(), &names).await.unwrap();
    assert_eq!(words, "lamp 40");
    let jobs = "select count(*) from postrider.job_history";
    let (jobs, events) = (fixture.count(jobs).await, names.len() as i64);
    assert!((1..=events).contains(&jobs), "{jobs} jobs for {events} events");
    let fanned_out = "select count(*) from postrider.fanout where cardinality(job_ids) = 1";
    assert_eq!(fixture.count(fanned_out).await, events, "each event knows the job that covers it");
}

#[tokio::test(flavor = "multi_thread")]
async fn both_books_have_each_payment_once_though_every_first_attempt_failed() {
    let fixture = Fixture::new().await;
    exactly_once_handler::run(&fixture.db.url(), 5).await.unwrap();
    let entries = fixture.texts("select book || ' ' || event_id from ledger").await;
    let events = "select book || ' ' || id from postrider.event,
        (values ('ledger'), ('mirror')) books (book)";
    let expected: BTreeSet<String> = fixture.texts(events).await.into_iter().collect();
    assert_eq!((entries.len(), expected.len()), (10, 10));
    assert_eq!(entries.into_iter().collect::<BTreeSet<_>>(), expected);
    let retries = "select count(*) from postrider.job_attempt where outcome = 'retry'
        and error like '%fails after its insert%'";
    assert_eq!(fixture.count(retries).await, 10);
    let completed = "select count(*) from postrider.job_history where state = 'completed'
        and attempt = 2";
    assert_eq!(fixture.count(completed).await, 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_balance_has_the_deposit_that_was_just_made_in_it() {
    let fixture = Fixture::new().await;
    let deposits = [500, 250, -100, 7];
    let balances = read_your_own_write::run(&fixture.db.url(), &deposits).await.unwrap();
    assert_eq!(balances, [500, 750, 650, 657]);
    assert_eq!(fixture.count("select cents from balance").await, 657);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_index_has_the_last_text_after_fewer_refreshes_than_saves_or_as_many() {
    let fixture = Fixture::new().await;
    let texts = ["a", "b", "c", "d", "e", "f", "g", "the text"];
    let refreshes = unique_job::run(&fixture.db.url(), &texts).await.unwrap();
    assert!((1..=texts.len()).contains(&refreshes), "{refreshes}");
    assert_eq!(fixture.texts("select words from search_index").await, ["the text"]);
    let jobs = "select count(*) from postrider.job_history where state = 'completed'";
    assert_eq!(fixture.count(jobs).await, refreshes as i64);
}
