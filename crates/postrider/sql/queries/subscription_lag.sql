-- How much waits for each live subscription. $1 count at most, $2 clock shift in microseconds.
-- Index: job_due; a range of at most $1 + 1 entries and four probes for each subscription.
-- `waiting` is one over $1 when there are more; `oldest_age_ms` is null when nothing is due.
select s.id, waiting.jobs,
  (extract(epoch from now() + $2 * interval '1 microsecond' - oldest.due_at) * 1000)::bigint as oldest_age_ms
from {schema}.subscription s
cross join lateral (
  select count(*) as jobs from (
    select from {schema}.job j
    where j.subscription_id = s.id and j.state = 'pending' limit $1 + 1) counted) waiting
cross join lateral (
  select min(head.due_at) as due_at
  from generate_series(1, 4) p(priority)
  cross join lateral (
    select j.due_at from {schema}.job j
    where j.subscription_id = s.id and j.priority = p.priority and j.state = 'pending'
      and j.due_at <= now() + $2 * interval '1 microsecond'
    order by j.due_at, j.id limit 1) head) oldest
where s.deleted_at is null
