-- An event by its id or by its seq, and what became of it. $1 id or null, $2 seq or null.
-- Indexes: event_by_id or event_is_one in each partition, then primary keys. An event that is
-- failing or poisoned is found by its seq even when its own row is gone. No row: no such event.
with named as (
  select e.seq, e.occurred_at, e.id from {schema}.event e where e.id = $1
  union all
  select e.seq, e.occurred_at, e.id from {schema}.event e where e.seq = $2
  union all
  select x.seq, x.occurred_at, null::uuid from {schema}.fanout_failure x
  where x.seq = $2
    and not exists (select from {schema}.event e where e.seq = x.seq and e.occurred_at = x.occurred_at)
  limit 1
)
select n.seq, n.occurred_at, n.id,
  case when f.skipped then 'skipped' when f.seq is not null then 'fanned_out'
       when x.poisoned_at is not null then 'poisoned' when x.seq is not null then 'failing'
       else 'owed' end as state,
  f.fanned_out_at, f.routing_version, x.attempts, x.retry_at, x.poisoned_at, x.last_error
from named n
left join {schema}.fanout f on f.seq = n.seq and f.occurred_at = n.occurred_at
left join {schema}.fanout_failure x on x.seq = n.seq
