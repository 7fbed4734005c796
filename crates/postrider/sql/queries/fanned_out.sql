-- How many of the events are there, and how many of those are fanned out. $1 ids.
-- Indexes: event_by_id and the primary key of fanout, in each partition, one probe per id: the
-- planner could not be trusted with that while a partition is new.
select count(distinct e.id) as known, count(distinct e.id) filter (where f.found) as fanned
from unnest($1::uuid[]) w(id)
cross join lateral (
  select e.id, e.seq, e.occurred_at from {schema}.event e where e.id = w.id offset 0) e
left join lateral (
  select true as found from {schema}.fanout f
  where f.seq = e.seq and f.occurred_at = e.occurred_at limit 1) f on true
