-- A page of jobs, newest first; first half. $1 clock shift in microseconds, $2 below this id,
-- $3 stored states, $4 due: 'now', 'later', $5 tried before, $6 subscription, $7 queue, $8 tenant,
-- all of them null for any; $9 most rows.
-- Indexes: the primary keys of job and job_history, backwards, until the page is full.
with interest as materialized (
  select s.id from {schema}.subscription s
  where ($6 is null or s.name = $6) and ($7 is null or s.queue = $7)
), unfinished as (
  select j.id, j.event_seq, j.event_occurred_at, j.state, j.due_at, j.started_at,
    null::timestamptz as finished_at, j.created_at, j.subscription_id, j.attempt, j.extra_attempts,
    j.origin, j.priority, j.tenant, j.last_error, null::jsonb as output, j.cancel_requested_at,
    (select l.session_id from {schema}.lease l where l.token = j.lease_token) as session_id,
    j.arguments, j.key, j.tick_at
  from {schema}.job j
  where ($2 is null or j.id < $2) and ($3 is null or j.state::text = any($3))
    and ($4 is null or $4 = 'later' and j.due_at > now() + $1 * interval '1 microsecond'
         or $4 = 'now' and j.due_at <= now() + $1 * interval '1 microsecond')
    and ($5 is null or (j.attempt > 0) = $5) and ($8 is null or j.tenant = $8)
    and (($6 is null and $7 is null) or j.subscription_id = any(array(select id from interest)))
  order by j.id desc limit $9
), finished as (
  select h.id, h.event_seq, h.event_occurred_at, h.state, null::timestamptz as due_at, h.started_at,
    h.finished_at, h.created_at, h.subscription_id, h.attempt, h.extra_attempts, h.origin,
    h.priority, h.tenant, h.last_error, h.output, null::timestamptz as cancel_requested_at,
    h.session_id, h.arguments, h.key, h.tick_at
  from {schema}.job_history h
  where ($2 is null or h.id < $2)
    and ($3 is null or h.state = any(($3::text[])::{schema}.job_state[]))
    and $4 is null and $5 is null and ($8 is null or h.tenant = $8)
    and (($6 is null and $7 is null) or h.subscription_id = any(array(select id from interest)))
  order by h.id desc limit $9
), page as (
  select * from unfinished union all select * from finished order by id desc limit $9
)
