-- The newest attempts of a job that did not complete it, in order. $1 id, $2 how many at most: a job
-- that snoozes for ever has as many as it likes. Index: job_attempt_of_job.
select a.attempt, a.started_at, a.finished_at, coalesce(o.name, a.session_id::text) as worker,
  a.outcome, a.error
from (
  select * from {schema}.job_attempt a where a.job_id = $1
  order by a.finished_at desc, a.attempt desc limit $2) a
left join {schema}.session o on o.id = a.session_id
order by a.finished_at, a.attempt
