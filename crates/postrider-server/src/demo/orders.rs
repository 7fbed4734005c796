//! The shop's orders: what may happen to one, and the plan of a transaction over several.
//!
//! How it fails: it does not; it is pure. Invariant: an order is in at most one open plan, and its
//! revision grows by one with each event.

use super::chance::Chance;

/// Where an order stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    Placed,
    Paid,
    Cancelled,
    Shipped,
}

impl Status {
    /// The word in the shop's table.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Placed => "placed",
            Self::Paid => "paid",
            Self::Cancelled => "cancelled",
            Self::Shipped => "shipped",
        }
    }

    /// The type of the event by which an order gets here.
    pub(super) fn event_type(self) -> &'static str {
        match self {
            Self::Placed => "order.placed",
            Self::Paid => "order.paid",
            Self::Cancelled => "order.cancelled",
            Self::Shipped => "order.shipped",
        }
    }
}

/// All event types of the shop, with what they mean.
pub(super) const EVENT_TYPES: [(&str, &str); 4] = [
    ("order.placed", "A customer placed an order."),
    ("order.paid", "The payment of an order arrived."),
    ("order.cancelled", "An order was called off before it was paid."),
    ("order.shipped", "A paid order left the house."),
];

/// An order as its producer knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Order {
    pub(super) id: i64,
    pub(super) status: Status,
    pub(super) amount_cents: i64,
    pub(super) revision: i32,
}

impl Order {
    /// A new order.
    pub(super) fn placed(id: i64, chance: &mut Chance) -> Self {
        let amount_cents = i64::try_from(500 + chance.below(20_000)).unwrap_or(500);
        Self { id, status: Status::Placed, amount_cents, revision: 1 }
    }

    /// The order after its next event, if there is any left.
    pub(super) fn next(&self, chance: &mut Chance) -> Option<Self> {
        let status = match self.status {
            Status::Placed if chance.percent(15) => Status::Cancelled,
            Status::Placed => Status::Paid,
            Status::Paid => Status::Shipped,
            Status::Cancelled | Status::Shipped => return None,
        };
        Some(Self { status, revision: self.revision + 1, ..self.clone() })
    }
}

/// What one transaction is going to do: each step is an order after it, and before it if it
/// existed.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) steps: Vec<(Option<Order>, Order)>,
}

impl Plan {
    /// Draws `events` steps: new orders, and next steps of orders that are taken out of `open`.
    pub(super) fn draw(
        events: usize,
        open: &mut Vec<Order>,
        chance: &mut Chance,
        mut new_id: impl FnMut() -> i64,
    ) -> Self {
        let mut plan = Self::default();
        for _ in 0..events {
            let advances = !open.is_empty() && chance.percent(60);
            let before = advances.then(|| {
                // As many as fit into memory, far below 2^63.
                let place = chance.below(open.len() as u64) as usize;
                open.swap_remove(place)
            });
            let after = before.as_ref().and_then(|order| order.next(chance));
            match after {
                Some(after) => plan.steps.push((before, after)),
                None => plan.steps.push((None, Order::placed(new_id(), chance))),
            }
        }
        plan
    }

    /// The orders that can still go on, after a commit or after a rollback.
    pub(super) fn left_open(self, committed: bool) -> impl Iterator<Item = Order> {
        self.steps.into_iter().filter_map(move |(before, after)| match committed {
            true => matches!(after.status, Status::Placed | Status::Paid).then_some(after),
            false => before,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_has_each_order_once_and_a_rollback_gives_the_orders_back() {
        let (mut chance, mut next) = (Chance::new(3, 0), 0);
        let mut open = Vec::new();
        for _ in 0..50 {
            let new_id = || {
                next += 1;
                next
            };
            let known = open.clone();
            let plan = Plan::draw(8, &mut open, &mut chance, new_id);
            let mut ids: Vec<i64> = plan.steps.iter().map(|(_, after)| after.id).collect();
            ids.sort_unstable();
            ids.dedup();
            assert_eq!(ids.len(), 8);
            let committed = chance.percent(50);
            open.extend(plan.left_open(committed));
            if !committed {
                let sorted = |orders: &[Order]| {
                    let mut ids: Vec<_> = orders.iter().map(|o| (o.id, o.revision)).collect();
                    ids.sort_unstable();
                    ids
                };
                assert_eq!(sorted(&open), sorted(&known));
            }
        }
    }

    #[test]
    fn every_status_has_its_declared_event_type() {
        for status in [Status::Placed, Status::Paid, Status::Cancelled, Status::Shipped] {
            let found = EVENT_TYPES.iter().any(|(name, _)| *name == status.event_type());
            assert!(found && status.event_type().ends_with(status.word()));
        }
    }
}
