-- Puts back jobs that a claim of this session took without the process hearing of it: the answer was
-- lost with the connection. Uses no attempt. Called by the worker after such a claim, before the next.
-- $1 session, $2 tokens that the process knows, $3 clock shift in microseconds.
-- Indexes: lease_of_session, job_pkey. Always one row: the tokens to release, and how many jobs.
with lost as materialized (
  select l.token, l.job_ids from {schema}.lease l where l.session_id = $1 and l.token <> all($2)
), back as (
  update {schema}.job j
  set state = 'pending', lease_token = null, started_at = null, cancel_requested_at = null,
    due_at = now() + $3 * interval '1 microsecond', attempt = j.attempt - 1
  where j.id = any(array(select unnest(job_ids) from lost))
    and j.lease_token = any(array(select token from lost))
  returning j.id
)
select array(select token from lost) as tokens, (select count(*) from back) as jobs
