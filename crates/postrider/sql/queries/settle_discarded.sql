-- Ends running jobs for good without success. Keeps the attempt in the log.
-- $1 job ids, $2 their tokens, $3 states ('discarded', 'cancelled'), $4 errors or nulls,
-- $5 session, $6 clock shift in microseconds.
-- Index: job_pkey. Returns the ids that were ended; one that is missing was stale.
with result as materialized (
  select * from unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[]) r(id, token, state, error)
), gone as (
  delete from {schema}.job j
  where j.id = any($1) and (j.id, j.lease_token) in (select id, token from result)
  returning j.*
), kept as (
  insert into {schema}.job_history
    (id, event_seq, event_occurred_at, finished_at, started_at, created_at, session_id,
     subscription_id, attempt, extra_attempts, state, origin, priority, tenant, last_error,
     arguments, key, tick_at)
  select g.id, g.event_seq, g.event_occurred_at, now() + $6 * interval '1 microsecond', g.started_at,
    g.created_at, $5, g.subscription_id, g.attempt, g.extra_attempts,
    r.state::{schema}.job_state, g.origin, g.priority, g.tenant, coalesce(r.error, g.last_error),
    g.arguments, g.key, g.tick_at
  from gone g join result r on r.id = g.id and r.token = g.lease_token
), logged as (
  insert into {schema}.job_attempt
    (job_id, attempt, started_at, finished_at, session_id, outcome, error)
  select g.id, g.attempt, g.started_at, now() + $6 * interval '1 microsecond', $5, r.state, r.error
  from gone g join result r on r.id = g.id and r.token = g.lease_token
)
select id from gone
