-- The attempts of a job that did not complete it, in order. $1 id. Index: job_attempt_of_job.
select a.attempt, a.started_at, a.finished_at, coalesce(o.name, a.session_id::text) as worker,
  a.outcome, a.error
from {schema}.job_attempt a
left join {schema}.session o on o.id = a.session_id
where a.job_id = $1
order by a.finished_at, a.attempt
