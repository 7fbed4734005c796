-- `search.index`: the order as it is now. A job that was overtaken by a newer one changes nothing.
-- $1 order. Indexes: customer_order_pkey, search_row_pkey. No row: the order is gone or newer is there.
insert into postrider_demo_shop.search_row as s (order_id, status, amount_cents, revision)
select id, status, amount_cents, revision from postrider_demo_shop.customer_order where id = $1
on conflict (order_id) do update
set status = excluded.status, amount_cents = excluded.amount_cents, revision = excluded.revision
where s.revision < excluded.revision
