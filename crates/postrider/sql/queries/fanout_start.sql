-- Fan-out, third part, after `kept`: one job for each event and subscription that wants it. Some of
-- them start at once in the process that asks, under a lease as if it had claimed them.
-- $4 session, $5 subscriptions that it handles and waits for, $6 most jobs that it starts.
-- Indexes: subscription_pkey, session_pkey. An ended session starts nothing.
startable as materialized (
  select k.job_id from kept k
  join {schema}.subscription s on s.id = k.subscription_id
  where s.id = any($5) and s.paused_at is null and k.seq = k.leader and k.failure is null
    and exists (select from {schema}.session o where o.id = $4 and o.ended_at is null)
  order by k.priority, k.job_id
  limit $6
), leased as (
  insert into {schema}.lease (session_id, job_ids, claimed_at)
  select $4, array_agg(s.job_id), now() from startable s having count(*) > 0
  returning token
), jobs as (
  insert into {schema}.job (id, event_seq, event_occurred_at, due_at, created_at, subscription_id,
    origin, priority, tenant, state, attempt, lease_token, started_at)
  select k.job_id, k.seq, k.occurred_at, (select at from moment), (select at from moment),
    k.subscription_id, 'fanout', k.priority, k.tenant,
    case when s.job_id is null then 'pending' else 'running' end::{schema}.job_state,
    (s.job_id is not null)::integer,
    case when s.job_id is not null then (select token from leased) end,
    case when s.job_id is not null then (select at from moment) end
  from kept k
  left join startable s on s.job_id = k.job_id
  where k.seq = k.leader and k.failure is null
  returning id, event_seq, event_occurred_at, due_at, subscription_id, priority, lease_token
),
