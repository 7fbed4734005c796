-- Forgets kept events whose reason is gone: over their retention, in the default partition, and no
-- longer owed, failing or with an unfinished job. Called in a transaction that holds the routing
-- lock alone, so that no job of one of them comes back meanwhile.
-- $1 most rows, $2 clock shift in microseconds.
-- The default partitions hold few rows; while they hold any, this reads the whole of job once.
with over as materialized (
  select e.seq, e.occurred_at
  from {schema}.event_default e, {schema}.setting s
  where e.occurred_at < clock_timestamp() + $2 * interval '1 microsecond' - s.event_retention
    and not exists (select from {schema}.owed o where o.seq = e.seq)
    and not exists (select from {schema}.fanout_failure f where f.seq = e.seq)
    and not exists (
      select from {schema}.job j where j.event_seq = e.seq and j.event_occurred_at = e.occurred_at)
  limit $1
), events as (
  delete from {schema}.event_default e using over where e.seq = over.seq and e.occurred_at = over.occurred_at
), fanouts as (
  delete from {schema}.fanout_default f using over where f.seq = over.seq and f.occurred_at = over.occurred_at
)
select count(*) as looked_at from over
