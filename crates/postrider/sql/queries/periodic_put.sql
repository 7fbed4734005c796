-- Declares a periodic job; a lower version never overwrites a higher one. $1 name, $2 kind, $3 cron,
-- $4 time zone, $5 arguments, $6 priority or null, $7 catch-up, $8 most ticks to catch up, $9 version,
-- $10 the next tick from now on, $11 clock shift in microseconds. The next tick stays unless the
-- schedule changed. Always one row: the version that stood before, whether the kind is declared, and
-- whether something changed.
with kind as (
  select s.id from {schema}.subscription s
  where s.name = $2 and s.source = 'enqueue' and s.deleted_at is null
), put as (
  insert into {schema}.periodic as p (name, kind, cron, time_zone, arguments, priority, catch_up,
    catch_up_max, version, declared_at, next_due_at)
  select $1, $2, $3, $4, $5, $6, $7, $8, $9, clock_timestamp() + $11 * interval '1 microsecond', $10
  from kind
  on conflict (name) do update
    set kind = excluded.kind, cron = excluded.cron, time_zone = excluded.time_zone,
      arguments = excluded.arguments, priority = excluded.priority, catch_up = excluded.catch_up,
      catch_up_max = excluded.catch_up_max, version = excluded.version,
      declared_at = excluded.declared_at,
      next_due_at = case when (p.cron, p.time_zone) = (excluded.cron, excluded.time_zone)
        then p.next_due_at else excluded.next_due_at end
    where excluded.version >= p.version
      and (p.kind, p.cron, p.time_zone, p.arguments, p.priority, p.catch_up, p.catch_up_max, p.version)
        is distinct from (excluded.kind, excluded.cron, excluded.time_zone, excluded.arguments,
          excluded.priority, excluded.catch_up, excluded.catch_up_max, excluded.version)
  returning p.name
)
select (select p.version from {schema}.periodic p where p.name = $1) as stood_at,
  exists (select from kind) as kind_is_known, exists (select from put) as changed
