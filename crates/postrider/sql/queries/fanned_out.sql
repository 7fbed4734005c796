-- How many of the events are there, and how many of those are fanned out. $1 ids.
-- Indexes: event_by_id and the primary key of fanout, in each partition.
select count(distinct e.id) as known, count(distinct e.id) filter (where f.seq is not null) as fanned
from {schema}.event e
left join {schema}.fanout f on f.seq = e.seq and f.occurred_at = e.occurred_at
where e.id = any($1)
