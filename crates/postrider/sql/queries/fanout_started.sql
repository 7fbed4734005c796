-- Fan-out, last part: the jobs that were started, in the columns of a claim, each beside the answer.
-- One row at least. Indexes: subscription_pkey, event_is_one of the day's partition.
select answer.*, j.id, j.subscription_id, 1 as attempt, 0 as extra_attempts, j.lease_token,
  'fanout' as origin, j.priority, j.due_at as head_due_at,
  e.id as event_id, e.seq, e.tenant, e.type, e.subject, e.key, e.occurred_at, e.data, e.body,
  e.content_type, e.headers, null::jsonb as arguments, null::timestamptz as tick_at,
  s.max_attempts, s.backoff, s.timeout_ms
from answer
left join jobs j on j.lease_token is not null
left join {schema}.subscription s on s.id = j.subscription_id
left join lateral (
  select * from {schema}.event e
  where e.seq = j.event_seq and e.occurred_at = j.event_occurred_at limit 1) e on true
order by j.priority, j.id
