-- What became of an event at a subscription. $1 event id, $2 subscription name.
-- Indexes: event_by_id, fanout's and the jobs' primary keys. No row: no such event.
select f.seq is not null as fanned, s.id is not null as subscription_known, g.job_id,
  coalesce(j.state, h.state)::text as state
from {schema}.event e
left join {schema}.fanout f on f.seq = e.seq and f.occurred_at = e.occurred_at
left join {schema}.subscription s on s.name = $2 and s.deleted_at is null
left join lateral (
  select u.job_id from unnest(f.subscription_ids, f.job_ids) u(subscription_id, job_id)
  where u.subscription_id = s.id) g on true
left join {schema}.job j on j.id = g.job_id
left join {schema}.job_history h on h.id = g.job_id
where e.id = $1
limit 1
