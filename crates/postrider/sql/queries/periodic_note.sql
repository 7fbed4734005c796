-- Keeps what became of the last job of each periodic job, before history forgets it.
-- Reads the few rows of periodic; index: job_history's primary key, one probe per row.
update {schema}.periodic p
set last_state = h.state, last_finished_at = h.finished_at, last_error = h.last_error
from {schema}.periodic q
cross join lateral (
  select h.state, h.finished_at, h.last_error from {schema}.job_history h
  where h.id = q.last_job_id limit 1) h
where p.id = q.id and q.last_state is null and q.last_job_id is not null and p.last_state is null
  and p.last_job_id = q.last_job_id
