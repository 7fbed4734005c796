-- How autovacuum treats the tables that change most: whether it is on at all, and for each table
-- whether it is on, how many dead rows there are, how many it lets pile up before it comes, and how
-- long ago it came. Reads the catalog and the statistics.
select t.name as table, coalesce(s.n_dead_tup, 0) as dead,
  (extract(epoch from clock_timestamp() - greatest(s.last_autovacuum, s.last_vacuum)) * 1000)::bigint
    as vacuumed_ms,
  coalesce(o.enabled, true) as enabled,
  current_setting('autovacuum')::boolean and current_setting('track_counts')::boolean as server_enabled,
  coalesce(o.threshold, current_setting('autovacuum_vacuum_threshold')::bigint)
    + (coalesce(o.scale, current_setting('autovacuum_vacuum_scale_factor')::float8)
      * greatest(c.reltuples, 0))::bigint as threshold
from unnest(array['owed', 'job', 'lease', 'session', 'fanout_failure']) with ordinality t(name, place)
join pg_class c on c.oid = to_regclass({schema_literal} || '.' || quote_ident(t.name))
left join pg_stat_user_tables s on s.relid = c.oid
cross join lateral (
  select max(p.option_value) filter (where p.option_name = 'autovacuum_enabled')::boolean as enabled,
    max(p.option_value) filter (where p.option_name = 'autovacuum_vacuum_threshold')::bigint as threshold,
    max(p.option_value) filter (where p.option_name = 'autovacuum_vacuum_scale_factor')::float8 as scale
  from pg_options_to_table(c.reloptions) p) o
order by t.place
