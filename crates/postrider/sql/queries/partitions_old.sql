-- The days whose every row is over its retention, oldest first. $1 clock shift in microseconds.
select p.parent, d.day
from {schema}.setting s
cross join lateral (values ('event', s.event_retention), ('job_completed', s.completed_retention),
  ('job_discarded', s.discarded_retention), ('job_attempt', s.discarded_retention)) p(parent, retention)
cross join lateral {schema}.partitions_of(p.parent) d
where ((d.day + 1)::timestamp at time zone 'UTC') <= clock_timestamp() + $1 * interval '1 microsecond' - p.retention
order by d.day, p.parent
