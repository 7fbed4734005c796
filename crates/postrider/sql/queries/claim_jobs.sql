-- Claims due jobs of one subscription for a session: of those that have due jobs, the one whose
-- head goes first. Called by the worker, once per queue with room, until nothing is due.
-- $1 session, $2 subscriptions that this process handles, $3 most jobs, $4 clock shift in
-- microseconds, $5 for each priority the time from which on to look. Index: job_due, one probe per
-- subscription and priority, then a range: both from $5 on, since before it lie the entries of
-- finished jobs, which nobody can remove while a session keeps an old snapshot.
-- Every row repeats the policy in force: it is data of the subscription, which a person may change.
-- Nothing due, or the session has ended: no row.
with pick as materialized (
  select s.id, p.priority, head.due_at
  from {schema}.subscription s
  cross join generate_series(1, 4) p(priority)
  cross join lateral (
    select j.due_at from {schema}.job j
    where j.subscription_id = s.id and j.priority = p.priority and j.state = 'pending'
      and j.due_at >= $5[p.priority] and j.due_at <= now() + $4 * interval '1 microsecond'
    order by j.due_at, j.id limit 1) head
  where s.id = any($2) and s.paused_at is null and s.deleted_at is null
    and exists (select from {schema}.session o where o.id = $1 and o.ended_at is null)
  -- Ageing: what has been due for a minute goes before everything in one claim of eight.
  order by case when random() < 0.125
      and head.due_at <= now() + $4 * interval '1 microsecond' - interval '1 minute' then 0
    else p.priority end, head.due_at
  limit 1
), claimed as materialized (
  select j.id from {schema}.job j
  where j.subscription_id = (select id from pick) and j.priority = (select priority from pick)
    and j.state = 'pending' and j.due_at <= now() + $4 * interval '1 microsecond'
    and j.due_at >= (select $5[priority] from pick)
  order by j.due_at, j.id
  limit $3
  for no key update skip locked
), leased as (
  insert into {schema}.lease (session_id, job_ids, claimed_at)
  select $1, array_agg(c.id), now() from claimed c having count(*) > 0
  returning token
), running as (
  update {schema}.job j
  set state = 'running', lease_token = (select token from leased), -- A count that cannot grow must not hold up the others.
    attempt = least(j.attempt, 2147483646) + 1,
    started_at = now() + $4 * interval '1 microsecond'
  where j.id = any(array(select id from claimed))
  returning j.*
)
select r.id, r.subscription_id, r.attempt, r.extra_attempts, r.lease_token, r.origin::text as origin,
  r.priority, (select due_at from pick) as head_due_at,
  e.id as event_id, e.seq, coalesce(e.tenant, r.tenant) as tenant, e.type, e.subject,
  coalesce(e.key, r.key) as key, e.occurred_at, e.data, e.body, e.content_type, e.headers,
  r.arguments, r.tick_at, s.max_attempts, s.backoff, s.timeout_ms
from running r
join {schema}.subscription s on s.id = r.subscription_id
left join lateral (
  select * from {schema}.event e
  where e.seq = r.event_seq and e.occurred_at = r.event_occurred_at limit 1) e on true
order by r.id
