-- Cancels jobs of deleted subscriptions: waiting ones at once, running ones are asked to stop.
-- $1 most jobs, $2 clock shift in microseconds. Index: job_due, one range per deleted subscription.
with doomed as materialized (
  select j.id, j.state from {schema}.subscription s
  join lateral (
    select id, state, cancel_requested_at from {schema}.job j
    where j.subscription_id = s.id
      and (j.state = 'pending' or j.cancel_requested_at is null)
    order by j.priority, j.due_at, j.id
    limit $1 for no key update skip locked) j on true
  where s.deleted_at is not null
  limit $1
), gone as (
  delete from {schema}.job j where j.id = any(array(select id from doomed where state = 'pending'))
    and j.state = 'pending'
  returning j.*
), asked as (
  update {schema}.job j set cancel_requested_at = now()
  where j.id = any(array(select id from doomed where state = 'running')) and j.state = 'running'
), kept as (
  insert into {schema}.job_history
    (id, event_seq, event_occurred_at, finished_at, started_at, created_at, subscription_id,
     attempt, extra_attempts, state, origin, priority, tenant, last_error,
     arguments, key, tick_at)
  select g.id, g.event_seq, g.event_occurred_at, now() + $2 * interval '1 microsecond', null,
    g.created_at, g.subscription_id, g.attempt, g.extra_attempts, 'cancelled', g.origin,
    g.priority, g.tenant, coalesce(g.last_error, 'the subscription was deleted'), g.arguments, g.key,
    g.tick_at
  from gone g
)
select (select count(*) from gone) as cancelled, (select count(*) from doomed) as looked_at
