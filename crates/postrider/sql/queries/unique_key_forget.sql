-- Forgets unique keys whose job is gone from history too; others are looked at again a window later.
-- $1 most rows, $2 clock shift in microseconds. Indexes: unique_key_looked, the primary keys of job and
-- job_history, one probe per key.
with due as materialized (
  select u.hash, u.job_id from {schema}.unique_key u, {schema}.setting s
  where u.looked_at < clock_timestamp() + $2 * interval '1 microsecond' - s.idempotency_window
  order by u.looked_at
  limit $1
  for update of u skip locked
), judged as materialized (
  select d.hash, j.id is null and h.id is null as gone
  from due d
  left join lateral (select j.id from {schema}.job j where j.id = d.job_id limit 1) j on true
  left join lateral (select h.id from {schema}.job_history h where h.id = d.job_id limit 1) h on true
), forgotten as (
  delete from {schema}.unique_key u where u.hash = any(array(select hash from judged where gone))
), kept as (
  update {schema}.unique_key u
  set looked_at = clock_timestamp() + $2 * interval '1 microsecond'
  where u.hash = any(array(select hash from judged where not gone))
)
select count(*) as looked_at from judged
