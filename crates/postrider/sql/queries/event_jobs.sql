-- Which job each subscription got for an event, or into which event's job it was coalesced.
-- $1 seq, $2 occurred_at. Indexes: the primary keys of fanout, job and job_history.
-- `state` is null when the job is over its retention. No row: no subscription got one.
select s.name as subscription, u.job_id, coalesce(j.state, h.state)::text as state,
  u.coalesced_seq, (select c.id from {schema}.event c where c.seq = u.coalesced_seq limit 1) as coalesced_id
from {schema}.fanout f
cross join lateral unnest(f.subscription_ids, f.job_ids, f.coalesced_into)
  u(subscription_id, job_id, coalesced_seq)
join {schema}.subscription s on s.id = u.subscription_id
left join {schema}.job j on j.id = u.job_id
left join {schema}.job_history h on h.id = u.job_id
where f.seq = $1 and f.occurred_at = $2
order by s.name
