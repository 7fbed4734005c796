, gone as (
  -- Second half: those without success come back, due now, with at least one attempt left, if their
  -- event and subscription are there. Called under the routing lock in share mode, as job_revive.
  delete from {schema}.job_history h using {schema}.subscription s
  where h.id = any(array(select id from picked)) and h.state in ('discarded', 'cancelled')
    and s.id = h.subscription_id and s.deleted_at is null
    and (h.event_seq is null or exists (
      select from {schema}.event e where e.seq = h.event_seq and e.occurred_at = h.event_occurred_at))
  returning h.*, s.max_attempts
), changed as (
  insert into {schema}.job (id, event_seq, event_occurred_at, due_at, created_at, subscription_id,
    attempt, extra_attempts, origin, priority, tenant, last_error, arguments, key, tick_at)
  select g.id, g.event_seq, g.event_occurred_at, now() + $4 * interval '1 microsecond', g.created_at,
    g.subscription_id, g.attempt, greatest(g.extra_attempts, g.attempt + 1 - g.max_attempts),
    g.origin, g.priority, g.tenant, g.last_error, g.arguments, g.key, g.tick_at
  from gone g
  returning id
)
select max(l.id) as last_id, count(*) as looked_at, (select count(*) from changed) as changed from looked l
