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
left join lateral (select j.state from {schema}.job j where j.id = g.job_id limit 1) j on true
left join lateral (select h.state from {schema}.job_history h where h.id = g.job_id limit 1) h on true
where e.id = $1
limit 1
