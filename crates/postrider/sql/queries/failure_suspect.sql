-- Moves one owed event to the failures with its attempt counted, before it is tried alone: what
-- happens to this process then, the attempt is known. Called in the transaction of its own.
-- $1 lower bound of seq (exclusive), $2 wait of the first attempt in microseconds, $3 clock shift
-- in microseconds. Index: owed_pkey. Nothing owed above the bound: no row.
with next as materialized (
  select o.seq, o.occurred_at from {schema}.owed o
  where o.seq > $1
  order by o.seq limit 1 for no key update skip locked
), taken as (
  delete from {schema}.owed o where o.seq = (select seq from next) returning o.seq, o.occurred_at
)
insert into {schema}.fanout_failure (seq, occurred_at, tenant, key, attempts, retry_at)
select t.seq, t.occurred_at, coalesce(e.tenant, ''), coalesce(e.key, ''), 1,
  now() + ($2 + $3) * interval '1 microsecond'
from taken t
left join {schema}.event e on e.seq = t.seq and e.occurred_at = t.occurred_at
returning seq, attempts
