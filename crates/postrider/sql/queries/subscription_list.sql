-- Every live subscription, by name, with the globs that live sessions register for it.
select s.id, s.name, s.source, s.globs, s.declared_globs, s.tenant, s.filter::text as filter, s.sink,
  s.coalesces, s.queue, s.max_attempts, s.backoff, s.timeout_ms, s.priority, s.version, s.created_at,
  s.created_routing_version, s.paused_at, s.filter_error, s.filter_error_at,
  array(
    select distinct g from {schema}.registration r
    join {schema}.session o on o.id = r.session_id and o.ended_at is null
    cross join unnest(r.globs) g
    where r.subscription_id = s.id order by g) as registered_globs
from {schema}.subscription s
where s.deleted_at is null
order by s.name
