-- The days whose every row is over its retention, oldest first; fan-outs go with their events.
-- $1 clock shift in microseconds. Reads the catalog of partitions and one row of setting.
select p.parent, d.day
from (select * from {schema}.setting limit 1) s
cross join lateral (values ('event', s.event_retention), ('job_completed', s.completed_retention),
  ('job_discarded', s.discarded_retention), ('job_attempt', s.discarded_retention)) p(parent, retention)
cross join lateral (
  select day from {schema}.partitions_of(p.parent)
  union
  select day from {schema}.partitions_of('fanout') where p.parent = 'event') d
where ((d.day + 1)::timestamp at time zone 'UTC') <= clock_timestamp() + $1 * interval '1 microsecond' - p.retention
order by d.day, p.parent
