//! What tests ask of the health of an engine.

use postrider::{Handle, Part};
use postrider_testkit::wait_until;

use crate::fixture::{Fixture, PATIENCE};

/// Waits until every part of the engine does its work.
#[track_caller]
pub(crate) fn wait_well(engine: &Handle) -> impl Future<Output = ()> {
    wait_until("every part of the engine is at work", PATIENCE * 2, async || {
        let health = engine.health();
        health.is_well().then_some(()).ok_or(format!("{:?}", health.troubles))
    })
}

/// Waits until a part of the engine says that it is in trouble, and returns why.
#[track_caller]
pub(crate) fn wait_ill(engine: &Handle, part: Part) -> impl Future<Output = String> {
    wait_until("a part of the engine is in trouble", PATIENCE, async move || {
        let troubles = engine.health().troubles;
        let found = troubles.iter().find(|trouble| trouble.part == part);
        found.map(|trouble| trouble.error.clone()).ok_or(format!("{part} is not: {troubles:?}"))
    })
}

/// Waits until nothing is owed, failing or unfinished: after an outage an event may wait among the
/// failures for its next try, without a mark and without a job.
#[track_caller]
pub(crate) fn wait_nothing_left(fixture: &Fixture) -> impl Future<Output = ()> {
    let sql = "select (select count(*) from postrider.owed)
        + (select count(*) from postrider.fanout_failure) + count(*) from postrider.job";
    wait_until("nothing is owed, failing or unfinished", PATIENCE * 2, async move || {
        let left = fixture.count(sql).await;
        (left == 0).then_some(()).ok_or(format!("{left} are"))
    })
}
