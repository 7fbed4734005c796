, gone as (
  -- Second half: those that wait are called off, those that run are asked to stop.
  delete from {schema}.job j
  where j.id = any(array(select id from picked)) and j.state = 'pending'
  returning j.*
), asked as (
  update {schema}.job j set cancel_requested_at = coalesce(j.cancel_requested_at, now())
  where j.id = any(array(select id from picked)) and j.state = 'running'
  returning j.id
), kept as (
  insert into {schema}.job_history
    (id, event_seq, event_occurred_at, finished_at, started_at, created_at, subscription_id,
     attempt, extra_attempts, state, origin, priority, tenant, last_error, arguments, key, tick_at)
  select g.id, g.event_seq, g.event_occurred_at, now() + $4 * interval '1 microsecond', null,
    g.created_at, g.subscription_id, g.attempt, g.extra_attempts, 'cancelled', g.origin, g.priority,
    g.tenant, coalesce(g.last_error, 'cancelled by a person'), g.arguments, g.key, g.tick_at
  from gone g
)
select max(l.id) as last_id, count(*) as looked_at,
  (select count(*) from gone) + (select count(*) from asked) as changed
from looked l
