-- Takes running jobs back from sessions that have ended: pending again, or discarded when the
-- attempt that died was the last. A job that somebody is settling right now is left alone.
-- $1 most leases, $2 clock shift in microseconds.
-- Indexes: lease_of_session, job_pkey. Returns the tokens looked at and how many jobs were freed.
with dead as materialized (
  select l.token, l.job_ids, l.session_id, s.name
  from {schema}.session s join {schema}.lease l on l.session_id = s.id
  where s.ended_at is not null
  order by l.token
  limit $1
), held as materialized (
  select j.id, j.lease_token, d.session_id, d.name
  from dead d join {schema}.job j on j.id = any(d.job_ids) and j.lease_token = d.token
  for no key update of j skip locked
), judged as materialized (
  select h.id, h.session_id, j.attempt, j.started_at,
    case when j.cancel_requested_at is not null then 'cancelled'
         when j.attempt >= s.max_attempts + j.extra_attempts then 'discarded' end as final_state,
    format('attempt %s of %s died with its process (%s)',
      j.attempt, s.max_attempts + j.extra_attempts, h.name) as error
  from held h join {schema}.job j on j.id = h.id
  join {schema}.subscription s on s.id = j.subscription_id
), back as (
  update {schema}.job j
  set state = 'pending', lease_token = null, started_at = null, cancel_requested_at = null,
    due_at = now() + $2 * interval '1 microsecond', last_error = t.error
  from judged t
  where j.id = t.id and t.final_state is null
  returning j.id
), gone as (
  delete from {schema}.job j using judged t where j.id = t.id and t.final_state is not null
  returning j.*, t.session_id, t.error, t.final_state
), kept as (
  insert into {schema}.job_history
    (id, event_seq, event_occurred_at, finished_at, started_at, created_at, session_id,
     subscription_id, attempt, extra_attempts, state, origin, priority, tenant, last_error)
  select g.id, g.event_seq, g.event_occurred_at, now() + $2 * interval '1 microsecond', g.started_at,
    g.created_at, g.session_id, g.subscription_id, g.attempt, g.extra_attempts,
    g.final_state::{schema}.job_state, g.origin, g.priority, g.tenant, g.error
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
