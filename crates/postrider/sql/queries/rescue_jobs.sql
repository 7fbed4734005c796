-- Takes running jobs back from sessions that have ended: pending again, or discarded when the
-- attempt that died was the last. A job that somebody is settling right now is left alone.
-- They are due spread over a second, and over five when they died before: one of them may be what
-- ends its process, and should not take the same others with it each time.
-- $1 most leases, $2 clock shift in microseconds.
-- Indexes: lease_of_session, job_pkey. Returns the tokens looked at and how many jobs were freed.
with dead as materialized (
  select l.token, l.job_ids, l.session_id, s.name
  from {schema}.session s join {schema}.lease l on l.session_id = s.id
  where s.ended_at is not null
  order by l.token
  limit $1
), held as materialized (
  select j.*, d.session_id, d.name from dead d
  cross join unnest(d.job_ids) h(id)
  cross join lateral (
    select j.id, j.attempt, j.extra_attempts, j.started_at, j.subscription_id, j.cancel_requested_at
    from {schema}.job j where j.id = h.id and j.lease_token = d.token
    limit 1 for no key update skip locked) j
), judged as materialized (
  select h.id, h.session_id, h.attempt, h.started_at,
    case when h.cancel_requested_at is not null then 'cancelled'
         when h.attempt >= s.max_attempts::bigint + h.extra_attempts then 'discarded' end as final_state,
    format('attempt %s of %s died with its process (%s)',
      h.attempt, s.max_attempts::bigint + h.extra_attempts, h.name) as error
  from held h join {schema}.subscription s on s.id = h.subscription_id
), back as (
  update {schema}.job j
  set state = 'pending', lease_token = null, started_at = null, cancel_requested_at = null,
    due_at = now() + $2 * interval '1 microsecond'
      + random() * case t.attempt when 1 then interval '1 second' else interval '5 seconds' end,
    last_error = t.error
  from judged t
  where j.id = any(array(select id from judged where final_state is null)) and j.id = t.id
  returning j.id
), gone as (
  delete from {schema}.job j using judged t
  where j.id = any(array(select id from judged where final_state is not null)) and j.id = t.id
  returning j.*, t.session_id, t.error, t.final_state
), kept as (
  insert into {schema}.job_history
    (id, event_seq, event_occurred_at, finished_at, started_at, created_at, session_id,
     subscription_id, attempt, extra_attempts, state, origin, priority, tenant, last_error,
     arguments, key, tick_at)
  select g.id, g.event_seq, g.event_occurred_at, now() + $2 * interval '1 microsecond', g.started_at,
    g.created_at, g.session_id, g.subscription_id, g.attempt, g.extra_attempts,
    g.final_state::{schema}.job_state, g.origin, g.priority, g.tenant, g.error, g.arguments, g.key,
    g.tick_at
  from gone g
), logged as (
  insert into {schema}.job_attempt
    (job_id, attempt, started_at, finished_at, session_id, outcome, error)
  select t.id, t.attempt, t.started_at, now() + $2 * interval '1 microsecond', t.session_id, 'lost', t.error
  from judged t
)
select array(select token from dead) as tokens,
  (select count(*) from judged) as rescued,
  (select count(*) from judged where final_state is not null) as ended
