-- Adds routes. $1 types, $2 subscriptions, pair by pair.
insert into {schema}.route (type, subscription_id)
select * from unnest($1::text[], $2::integer[])
on conflict do nothing
