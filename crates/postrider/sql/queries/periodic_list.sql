-- The periodic jobs, by name, with what became of the last job. $1 a name, or null for all.
-- Indexes: the primary keys of job and job_history, one probe per row.
select p.name, p.kind, p.cron, p.time_zone, p.arguments, p.priority, p.catch_up, p.catch_up_max,
  p.version, p.paused_at, p.next_due_at, p.last_tick_at, p.last_job_id,
  coalesce(j.state, h.state, p.last_state)::text as last_state,
  coalesce(h.finished_at, p.last_finished_at) as last_finished_at,
  coalesce(j.last_error, h.last_error, p.last_error) as last_error,
  exists (select from {schema}.subscription s
    where s.name = p.kind and s.source = 'enqueue' and s.deleted_at is null) as kind_is_known
from {schema}.periodic p
left join lateral (
  select j.state, j.last_error from {schema}.job j where j.id = p.last_job_id limit 1) j on true
left join lateral (
  select h.state, h.finished_at, h.last_error from {schema}.job_history h
  where h.id = p.last_job_id limit 1) h on true
where $1 is null or p.name = $1
order by p.name
