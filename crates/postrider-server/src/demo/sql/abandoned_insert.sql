-- What a transaction recorded that was rolled back. $1 event ids, $2 order ids.
insert into postrider_demo_shop.abandoned (event_id, order_id)
select event_id, order_id from unnest($1::uuid[], $2::bigint[]) n(event_id, order_id)
