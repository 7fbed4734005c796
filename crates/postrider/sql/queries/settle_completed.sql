-- Settles jobs whose handlers are done, and lets go of leases that hold no job any more.
-- $1 job ids, $2 their tokens, $3 their outputs or nulls, $4 session, $5 clock shift in
-- microseconds. Index: job_pkey. Returns the ids that were settled; one that is missing was stale.
with result as materialized (
  select r.id, r.token, r.output from unnest($1::bigint[], $2::bigint[], $3::jsonb[]) r(id, token, output)
), gone as (
  delete from {schema}.job j
  where j.id = any($1) and (j.id, j.lease_token) in (select id, token from result)
  returning j.*
), kept as (
  insert into {schema}.job_history
    (id, event_seq, event_occurred_at, finished_at, started_at, created_at, session_id,
     subscription_id, attempt, extra_attempts, state, origin, priority, tenant, last_error, output,
     arguments, key, tick_at)
  select g.id, g.event_seq, g.event_occurred_at, now() + $5 * interval '1 microsecond', g.started_at,
    g.created_at, $4, g.subscription_id, g.attempt, g.extra_attempts, 'completed', g.origin,
    g.priority, g.tenant, g.last_error, r.output, g.arguments, g.key, g.tick_at
  from gone g join result r on r.id = g.id and r.token = g.lease_token
)
select id from gone
