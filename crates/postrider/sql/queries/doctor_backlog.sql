-- How much is owed and failing. $1 count at most, $2 clock shift in microseconds.
-- Indexes: owed_pkey from its start; fanout_failure is small. Counts are one over $1 when there is more.
select
  (select count(*) from (select from {schema}.owed limit $1 + 1) counted) as owed,
  (select (extract(epoch from clock_timestamp() + $2 * interval '1 microsecond' - first.occurred_at) * 1000)::bigint
   from (select o.occurred_at from {schema}.owed o order by o.seq limit 1) first) as oldest_age_ms,
  (select count(*) from (
    select from {schema}.fanout_failure x where x.poisoned_at is null limit $1 + 1) counted) as failing,
  (select count(*) from (
    select from {schema}.fanout_failure x where x.poisoned_at is not null limit $1 + 1) counted) as poisoned
