-- The rate of the last tenth of the settles over that of the first.
with tenth as (
  select ntile(10) over (order by finished_at) as part, finished_at as at from {schema}.job_history
), rate as (
  select part, count(*) / greatest(extract(epoch from max(at) - min(at)), 0.001) as rate from tenth group by part
)
select ((select rate from rate where part = 10) / (select rate from rate where part = 1))::float8
