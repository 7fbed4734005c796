-- Renews a session; returns the running jobs that were asked to stop, or one null when there is
-- none. $1 session, $2 lease in microseconds. Indexes: session_pkey,
-- lease_of_session, job_pkey. No row: the session was taken
-- for lost and its jobs are being given to others.
with renewed as (
  update {schema}.session
  set expires_at = clock_timestamp() + $2 * interval '1 microsecond'
  where id = $1 and ended_at is null
  returning id
)
select array(
  select h.id from {schema}.lease l
  cross join unnest(l.job_ids) h(id)
  cross join lateral (
    select j.lease_token, j.cancel_requested_at from {schema}.job j where j.id = h.id limit 1) j
  where l.session_id = $1 and j.lease_token = l.token and j.cancel_requested_at is not null
) as cancelled
from renewed
