-- New orders. $1 ids, $2 amounts in cents. Index: customer_order_pkey.
insert into postrider_demo_shop.customer_order (id, status, amount_cents, revision)
select id, 'placed', amount_cents, 1 from unnest($1::bigint[], $2::bigint[]) n(id, amount_cents)
