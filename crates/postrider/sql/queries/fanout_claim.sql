-- Fan-out of a batch, first half: claim owed events and delete their marks.
-- Called by the relay's pass, inside a transaction that holds the routing lock in share mode.
-- $1 lower bound of seq, $2 most events, $3 clock shift in microseconds.
-- Index: owed_pkey, from the bound on. No owed event above the bound: one row with zeros.
with claimed as materialized (
  select o.ctid as place from {schema}.owed o
  where o.seq > $1
  order by o.seq
  limit (select least($2, r.batch_max) from {schema}.routing r)
  for no key update skip locked
), taken as (
  -- A mark is never updated and is locked here, so its place in the table stays what it was.
  delete from {schema}.owed o where o.ctid = any(array(select place from claimed))
  returning o.seq, o.occurred_at
),
