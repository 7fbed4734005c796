//! A producer: a connection of the shop that writes orders and records what happened to them, both
//! in one transaction. Some transactions roll back; some stay open while others pass them by.
//!
//! How it fails: an error of the database ends the demo, which says so. Invariants: the shop's
//! rows, the journal and the events are written in the same transaction; what was rolled back is
//! noted and its events are recorded anew by later transactions until the wanted number is
//! committed.

use std::sync::Arc;
use std::time::Duration;

use postrider::{NewEvent, Recorder};
use serde_json::json;
use tokio::task::JoinHandle;
use tokio_postgres::{Client, Statement};
use uuid::Uuid;

use super::chance::Chance;
use super::failure::Failure;
use super::orders::{Order, Plan};
use super::place::Place;
use super::progress::Progress;

/// One in this many transactions stays open for a while.
const LATE_EVERY: u64 = 50;
/// How many later transactions a late one lets pass.
const LATE_PASSED_BY: u64 = 20;
/// A late transaction waits no longer than this, however slow the others are.
const LATE_MAX: Duration = Duration::from_secs(3);
/// How often something that has no wake-up of its own is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// How many of 100 transactions roll back.
const ROLLBACK_PERCENT: u64 = 8;
/// Of the late ones more do: their events are the easiest to invent.
const LATE_ROLLBACK_PERCENT: u64 = 25;

/// A connection of the shop with its statements.
struct Till {
    client: Client,
    recorder: Recorder,
    order_insert: Statement,
    order_update: Statement,
    journal_insert: Statement,
    abandoned_insert: Statement,
}

/// How a transaction is to end.
#[derive(Debug, Clone, Copy)]
struct Ending {
    rolls_back: bool,
    late: bool,
}

impl Till {
    async fn open(place: &Place) -> Result<Self, Failure> {
        let client = place.database("shop")?.connect().await?;
        Ok(Self {
            recorder: Recorder::new(&place.schema()),
            order_insert: client.prepare(include_str!("sql/order_insert.sql")).await?,
            order_update: client.prepare(include_str!("sql/order_update.sql")).await?,
            journal_insert: client.prepare(include_str!("sql/journal_insert.sql")).await?,
            abandoned_insert: client.prepare(include_str!("sql/abandoned_insert.sql")).await?,
            client,
        })
    }

    /// Carries a plan out and ends the transaction as told.
    async fn run(
        &mut self,
        plan: &Plan,
        ending: Ending,
        progress: &Progress,
    ) -> Result<(), Failure> {
        let mut transaction = self.client.transaction().await?;
        let (new, next): (Vec<_>, Vec<_>) =
            plan.steps.iter().partition(|(before, _)| before.is_none());
        if !new.is_empty() {
            let ids: Vec<i64> = new.iter().map(|(_, order)| order.id).collect();
            let amounts: Vec<i64> = new.iter().map(|(_, order)| order.amount_cents).collect();
            transaction.execute(&self.order_insert, &[&ids, &amounts]).await?;
        }
        if !next.is_empty() {
            let ids: Vec<i64> = next.iter().map(|(_, order)| order.id).collect();
            let words: Vec<&str> = next.iter().map(|(_, order)| order.status.word()).collect();
            let revisions: Vec<i32> = next.iter().map(|(_, order)| order.revision).collect();
            transaction.execute(&self.order_update, &[&ids, &words, &revisions]).await?;
        }
        let orders: Vec<&Order> = plan.steps.iter().map(|(_, order)| order).collect();
        let events = orders.iter().map(|order| event(order)).collect::<Result<Vec<_>, _>>()?;
        let event_ids = match &events[..] {
            [event] => vec![self.recorder.record(&mut transaction, event).await?],
            events => self.recorder.record_many(&mut transaction, events).await?,
        };
        let ids: Vec<i64> = orders.iter().map(|order| order.id).collect();
        let revisions: Vec<i32> = orders.iter().map(|order| order.revision).collect();
        let types: Vec<&str> = orders.iter().map(|order| order.status.event_type()).collect();
        let amounts: Vec<i64> = orders.iter().map(|order| order.amount_cents).collect();
        let journal: [&(dyn tokio_postgres::types::ToSql + Sync); 6] =
            [&event_ids, &ids, &revisions, &types, &amounts, &ending.late];
        transaction.execute(&self.journal_insert, &journal).await?;
        if ending.late {
            let_others_pass(progress).await;
        }
        match ending.rolls_back {
            false => Ok(transaction.commit().await?),
            true => {
                transaction.rollback().await?;
                self.note_abandoned(&event_ids, &ids).await
            }
        }
    }

    async fn note_abandoned(&self, event_ids: &[Uuid], orders: &[i64]) -> Result<(), Failure> {
        self.client.execute(&self.abandoned_insert, &[&event_ids, &orders]).await?;
        Ok(())
    }
}

/// The event that tells of an order's new state.
fn event(order: &Order) -> Result<NewEvent, postrider::Error> {
    let data = json!({
        "order_id": order.id,
        "status": order.status.word(),
        "amount_cents": order.amount_cents,
    });
    let event = NewEvent::new(order.status.event_type(), format!("order:{}", order.id))?;
    Ok(event.data(&data)?)
}

/// Keeps a transaction open until enough others have begun and committed meanwhile.
async fn let_others_pass(progress: &Progress) {
    let until = progress.transactions() + LATE_PASSED_BY;
    let deadline = tokio::time::Instant::now() + LATE_MAX;
    while progress.transactions() < until
        && !progress.is_reserved()
        && tokio::time::Instant::now() < deadline
    {
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// A late transaction under way on the producer's second connection.
type Late = JoinHandle<Result<(Till, Vec<Order>), Failure>>;

/// Records until the wanted number of events is committed.
pub(super) async fn run(
    place: Arc<Place>,
    progress: Arc<Progress>,
    mut chance: Chance,
    events_max: u64,
) -> Result<(), Failure> {
    let mut till = Till::open(&place).await?;
    let mut spare = Some(Till::open(&place).await?);
    let mut late: Option<Late> = None;
    let mut open = Vec::new();
    let mut count = 0_u64;
    while !progress.is_complete() {
        if late.as_ref().is_some_and(JoinHandle::is_finished)
            && let Some(task) = late.take()
        {
            let (till, orders) = joined(task).await?;
            spare = Some(till);
            open.extend(orders);
        }
        let most = i64::try_from(1 + chance.below(events_max)).unwrap_or(1);
        let (events, begins_at) = progress.reserve(most);
        if events == 0 {
            tokio::time::sleep(LOOK_EVERY).await;
            continue;
        }
        tokio::time::sleep_until(begins_at).await;
        count += 1;
        let steps = usize::try_from(events).unwrap_or(1);
        let plan = Plan::draw(steps, &mut open, &mut chance, || progress.new_order());
        if count % LATE_EVERY == LATE_EVERY / 2
            && let Some(till) = spare.take()
        {
            let rolls_back = chance.percent(LATE_ROLLBACK_PERCENT);
            late = Some(tokio::spawn(run_late(till, plan, rolls_back, Arc::clone(&progress))));
            continue;
        }
        let ending = Ending { rolls_back: chance.percent(ROLLBACK_PERCENT), late: false };
        till.run(&plan, ending, &progress).await?;
        progress.ended(events, !ending.rolls_back);
        open.extend(plan.left_open(!ending.rolls_back));
    }
    if let Some(task) = late {
        joined(task).await?;
    }
    Ok(())
}

async fn run_late(
    mut till: Till,
    plan: Plan,
    rolls_back: bool,
    progress: Arc<Progress>,
) -> Result<(Till, Vec<Order>), Failure> {
    till.run(&plan, Ending { rolls_back, late: true }, &progress).await?;
    progress.ended(i64::try_from(plan.steps.len()).unwrap_or(0), !rolls_back);
    Ok((till, plan.left_open(!rolls_back).collect()))
}

async fn joined(task: Late) -> Result<(Till, Vec<Order>), Failure> {
    match task.await {
        Ok(result) => result,
        Err(error) => Err(Failure::new(format!("a producer panicked: {error}"))),
    }
}
