-- The periodic jobs whose next tick has come, the longest due first, and the time. $1 clock shift in
-- microseconds. Index: periodic_due. No row: none is due.
select p.id, p.name, p.cron, p.time_zone, p.catch_up, p.catch_up_max, p.next_due_at,
  clock_timestamp() + $1 * interval '1 microsecond' as now
from {schema}.periodic p
where p.paused_at is null and p.next_due_at <= clock_timestamp() + $1 * interval '1 microsecond'
order by p.next_due_at
limit 100
