-- Enqueues a job of a periodic job at once, beside its ticks. $1 name, $2 clock shift in microseconds.
-- Always one row: whether there is such a periodic job, and the id of the job, which is null when its
-- kind is not declared.
with wanted as materialized (
  select p.id, p.name, p.arguments, s.id as kind_id, coalesce(p.priority, s.priority) as priority
  from {schema}.periodic p
  left join {schema}.subscription s
    on s.name = p.kind and s.source = 'enqueue' and s.deleted_at is null
  where p.name = $1
), job as (
  insert into {schema}.job (due_at, created_at, subscription_id, origin, priority, tenant, arguments,
    key)
  select now() + $2 * interval '1 microsecond', now() + $2 * interval '1 microsecond', w.kind_id,
    'enqueue', w.priority, '', w.arguments, w.name
  from wanted w where w.kind_id is not null
  returning id
), noted as (
  update {schema}.periodic p
  set last_job_id = j.id, last_state = null, last_finished_at = null, last_error = null
  from wanted w, job j where p.id = w.id
)
select exists (select from wanted) as is_known, (select id from job) as job_id
