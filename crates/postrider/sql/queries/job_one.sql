-- One job, first half. $1 clock shift in microseconds, $2 id.
-- Indexes: the primary keys of job and job_history. No row: there is none, or it is forgotten.
with page as (
  select j.id, j.event_seq, j.event_occurred_at, j.state, j.due_at, j.started_at,
    null::timestamptz as finished_at, j.created_at, j.subscription_id, j.attempt, j.extra_attempts,
    j.origin, j.priority, j.tenant, j.last_error, null::jsonb as output, j.cancel_requested_at,
    (select l.session_id from {schema}.lease l where l.token = j.lease_token) as session_id,
    j.arguments, j.key, j.tick_at
  from {schema}.job j where j.id = $2
  union all
  select h.id, h.event_seq, h.event_occurred_at, h.state, null, h.started_at, h.finished_at,
    h.created_at, h.subscription_id, h.attempt, h.extra_attempts, h.origin, h.priority, h.tenant,
    h.last_error, h.output, null, h.session_id, h.arguments, h.key, h.tick_at
  from {schema}.job_history h where h.id = $2
)
