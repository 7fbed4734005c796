-- Jobs, second half: what people see of the page. `shown` is the state with what a due time in the
-- future makes of it.
select p.id, p.state::text as state,
  case when p.state <> 'pending' or p.due_at <= now() + $1 * interval '1 microsecond' then p.state::text
       when p.attempt = 0 then 'scheduled' else 'retryable' end as shown,
  s.name as subscription, s.deleted_at is not null as subscription_deleted, s.queue,
  p.origin::text as origin, p.tenant, p.priority, p.attempt,
  least(s.max_attempts::bigint + p.extra_attempts, 2147483647)::integer as attempts_max, p.created_at, p.due_at, p.started_at,
  p.finished_at, p.cancel_requested_at, p.event_seq, p.event_occurred_at, e.id as event_id,
  e.type as event_type, e.subject, p.last_error, p.output, p.arguments, p.key, p.tick_at, coalesce(o.name, p.session_id::text) as worker
from page p
join {schema}.subscription s on s.id = p.subscription_id
left join {schema}.session o on o.id = p.session_id
left join lateral (
  select v.id, v.type, v.subject from {schema}.event v
  where v.seq = p.event_seq and v.occurred_at = p.event_occurred_at limit 1) e on true
order by p.id desc
