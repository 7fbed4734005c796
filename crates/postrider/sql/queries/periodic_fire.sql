-- Enqueues the jobs of ticks and moves the next tick on, unless another process has: of two, one waits
-- here for the other and then finds the next tick moved. $1 id, $2 the next tick as it was seen,
-- $3 the ticks to enqueue, $4 the tick after them or null, $5 clock shift in microseconds.
-- Indexes: periodic_pkey, subscription_name_is_unique. Always one row with a word: `fired`,
-- `no_kind` (it is deleted; the ticks pass) or `taken` (somebody else was faster, or it is paused).
with due as materialized (
  select p.* from {schema}.periodic p
  where p.id = $1 and p.next_due_at = $2 and p.paused_at is null
  for no key update
), kind as materialized (
  select s.id, coalesce(d.priority, s.priority) as priority
  from due d join {schema}.subscription s
    on s.name = d.kind and s.source = 'enqueue' and s.deleted_at is null
), ticks as materialized (
  select t.tick_at, nextval('{schema_in_literal}.job_id_seq') as job_id
  from kind, (select u.tick_at from unnest($3::timestamptz[]) u(tick_at) order by 1) t
), marked as (
  insert into {schema}.periodic_tick (periodic_id, tick_at, job_id)
  select $1, t.tick_at, t.job_id from ticks t
), jobs as (
  insert into {schema}.job (id, due_at, created_at, subscription_id, origin, priority, tenant,
    arguments, key, tick_at)
  select t.job_id, now() + $5 * interval '1 microsecond', now() + $5 * interval '1 microsecond', k.id,
    'enqueue', k.priority, '', d.arguments, d.name, t.tick_at
  from ticks t, kind k, due d
), moved as (
  update {schema}.periodic p
  set next_due_at = $4, last_tick_at = coalesce(t.tick_at, p.last_tick_at),
    last_job_id = coalesce(t.job_id, p.last_job_id),
    last_state = case when t.job_id is null then p.last_state end,
    last_finished_at = case when t.job_id is null then p.last_finished_at end,
    last_error = case when not exists (select from kind)
        then format('the kind %s is not declared, so its ticks pass', p.kind)
      when t.job_id is null then p.last_error end
  from due d left join (select tick_at, job_id from ticks order by job_id desc limit 1) t on true
  where p.id = d.id
), old as (
  delete from {schema}.periodic_tick o
  where o.periodic_id = $1 and o.tick_at < $2 - interval '7 days'
)
select case when not exists (select from due) then 'taken'
  when not exists (select from kind) then 'no_kind' else 'fired' end as result
