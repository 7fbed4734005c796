-- What this transaction recorded. $1 event ids, $2 order ids, $3 revisions, $4 types, $5 amounts in
-- cents, $6 whether the transaction commits late.
insert into postrider_demo_shop.journal (event_id, order_id, revision, type, amount_cents, late)
select n.event_id, n.order_id, n.revision, n.type, n.amount_cents, $6
from unnest($1::uuid[], $2::bigint[], $3::integer[], $4::text[], $5::bigint[])
  n(event_id, order_id, revision, type, amount_cents)
