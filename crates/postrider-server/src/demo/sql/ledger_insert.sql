-- `billing.ledger`: one payment. $1 order, $2 event, $3 amount in cents, $4 worker. Nothing in the
-- table stops a second row; only the transaction that it shares with its job does.
insert into postrider_demo_shop.ledger (order_id, event_id, amount_cents, worker)
values ($1, $2, $3, $4)
