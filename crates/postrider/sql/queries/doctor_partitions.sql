-- How many days of partitions each table has ahead of today, and how many rows fell into its net.
-- $1 rows counted at most. No row for a table: it has no partition.
select p.parent, coalesce(max(d.day) - (clock_timestamp() at time zone 'UTC')::date, -1) as days_ahead,
  max(p.in_net) as in_net
from (values
  ('event', (select count(*) from (select from {schema}.event_default limit $1 + 1) counted)),
  ('fanout', (select count(*) from (select from {schema}.fanout_default limit $1 + 1) counted)),
  ('job_completed', (select count(*) from (select from {schema}.job_completed_default limit $1 + 1) counted)),
  ('job_discarded', (select count(*) from (select from {schema}.job_discarded_default limit $1 + 1) counted)),
  ('job_attempt', (select count(*) from (select from {schema}.job_attempt_default limit $1 + 1) counted))
) p(parent, in_net)
left join lateral {schema}.partitions_of(p.parent) d on true
group by p.parent
order by p.parent
