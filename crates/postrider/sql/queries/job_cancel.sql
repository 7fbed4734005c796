-- Calls a job off: a pending one at once, a running one is asked to stop.
-- $1 id, $2 the reason, $3 clock shift in microseconds. Index: job_pkey.
-- Returns which it was; no row: it is finished, or there is none.
with held as materialized (
  select j.id, j.state from {schema}.job j where j.id = $1 for no key update
), gone as (
  delete from {schema}.job j using held h
  where j.id = h.id and h.state = 'pending'
  returning j.*
), asked as (
  update {schema}.job j set cancel_requested_at = coalesce(j.cancel_requested_at, now())
  from held h
  where j.id = h.id and h.state = 'running'
), kept as (
  insert into {schema}.job_history
    (id, event_seq, event_occurred_at, finished_at, started_at, created_at, subscription_id,
     attempt, extra_attempts, state, origin, priority, tenant, last_error,
     arguments, key, tick_at)
  select g.id, g.event_seq, g.event_occurred_at, now() + $3 * interval '1 microsecond', null,
    g.created_at, g.subscription_id, g.attempt, g.extra_attempts, 'cancelled', g.origin,
    g.priority, g.tenant, coalesce(g.last_error, $2), g.arguments, g.key, g.tick_at
  from gone g
)
select h.state::text as was from held h
