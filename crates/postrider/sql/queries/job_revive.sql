-- Brings a discarded or cancelled job back under its id, due now, with at least one attempt left.
-- Called in a transaction that holds the routing lock in share mode: the retention of events relies
-- on it that no unfinished job appears for an old event meanwhile.
-- $1 id, $2 clock shift in microseconds. Indexes: the primary keys of job_history and event.
-- No row: it is neither, its event is gone, or its subscription is deleted.
with fact as materialized (
  select e.seq from {schema}.job_history h
  join {schema}.event e on e.seq = h.event_seq and e.occurred_at = h.event_occurred_at
  where h.id = $1
), gone as (
  delete from {schema}.job_history h
  using {schema}.subscription s
  where h.id = $1 and h.state in ('discarded', 'cancelled')
    and s.id = h.subscription_id and s.deleted_at is null
    and (h.event_seq is null or exists (select from fact))
  returning h.*, s.max_attempts
)
insert into {schema}.job (id, event_seq, event_occurred_at, due_at, created_at, subscription_id,
  attempt, extra_attempts, origin, priority, tenant, last_error, arguments, key, tick_at)
select g.id, g.event_seq, g.event_occurred_at, now() + $2 * interval '1 microsecond', g.created_at,
  g.subscription_id, g.attempt, greatest(g.extra_attempts, g.attempt - g.max_attempts + 1), g.origin,
  g.priority, g.tenant, g.last_error, g.arguments, g.key, g.tick_at
from gone g
returning id
