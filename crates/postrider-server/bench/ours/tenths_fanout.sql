-- The rate of the last tenth of the fan-outs over that of the first.
with tenth as (
  select ntile(10) over (order by fanned_out_at) as part, fanned_out_at as at from {schema}.fanout
), rate as (
  select part, count(*) / greatest(extract(epoch from max(at) - min(at)), 0.001) as rate from tenth group by part
)
select ((select rate from rate where part = 10) / (select rate from rate where part = 1))::float8
