-- Forgets ids of callers that are over the idempotency window. $1 most rows, $2 clock shift in
-- microseconds. Indexes: record_key_age,
-- record_key_pkey.
with gone as (
delete from {schema}.record_key k
where k.id = any(array(
  select o.id from {schema}.record_key o, {schema}.setting s
  where o.occurred_at < clock_timestamp() + $2 * interval '1 microsecond' - s.idempotency_window
  order by o.occurred_at limit $1 for update of o skip locked))
returning 1)
select count(*) as looked_at from gone
