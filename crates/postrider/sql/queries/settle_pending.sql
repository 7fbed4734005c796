-- Puts running jobs back: after an error, a snooze, a stop. Keeps the attempt in the log. A job that
-- was asked to stop meanwhile is cancelled instead.
-- $1 job ids, $2 their tokens, $3 delays in microseconds, $4 outcomes ('retry', 'snoozed',
-- 'released'), $5 errors or nulls, $6 session, $7 clock shift in microseconds.
-- Only 'retry' uses an attempt. Index: job_pkey. Returns the ids that were put back or cancelled;
-- one that is missing was stale.
with result as materialized (
  select * from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[], $5::text[])
    r(id, token, delay, outcome, error)
), held as materialized (
  select j.id, j.attempt, j.started_at, j.cancel_requested_at is not null as cancelled,
    r.delay, r.outcome, r.error
  from {schema}.job j join result r on r.id = j.id and r.token = j.lease_token
  where j.id = any($1)
  for no key update of j
), back as (
  update {schema}.job j
  set state = 'pending', lease_token = null, started_at = null,
    due_at = now() + ($7 + h.delay) * interval '1 microsecond',
    attempt = case when h.outcome = 'retry' then j.attempt else j.attempt - 1 end,
    last_error = coalesce(h.error, j.last_error)
  from held h
  where j.id = h.id and not h.cancelled
), gone as (
  delete from {schema}.job j using held h where j.id = h.id and h.cancelled
  returning j.*, h.error
), kept as (
  insert into {schema}.job_history
    (id, event_seq, event_occurred_at, finished_at, started_at, created_at, session_id,
     subscription_id, attempt, extra_attempts, state, origin, priority, tenant, last_error,
     arguments, key, tick_at)
  select g.id, g.event_seq, g.event_occurred_at, now() + $7 * interval '1 microsecond', g.started_at,
    g.created_at, $6, g.subscription_id, g.attempt, g.extra_attempts, 'cancelled', g.origin,
    g.priority, g.tenant, coalesce(g.error, g.last_error), g.arguments, g.key, g.tick_at
  from gone g
), logged as (
  insert into {schema}.job_attempt
    (job_id, attempt, started_at, finished_at, session_id, outcome, error)
  select h.id, h.attempt, h.started_at, now() + $7 * interval '1 microsecond', $6,
    case when h.cancelled then 'cancelled' else h.outcome end, h.error
  from held h
)
select id from held
