-- The next step of orders. $1 ids, $2 statuses, $3 revisions. Index: customer_order_pkey.
update postrider_demo_shop.customer_order o
set status = n.status, revision = n.revision
from unnest($1::bigint[], $2::text[], $3::integer[]) n(id, status, revision)
where o.id = n.id
