-- How many connections the server has, of how many, and how many of them are Postrider's own, by
-- what they are for. $1 the name that Postrider's connections begin with. Always one row.
select current_setting('max_connections')::bigint
    - current_setting('superuser_reserved_connections')::bigint as most,
  count(*) as used,
  count(*) filter (where own.purpose = '') as working,
  count(*) filter (where own.purpose = ' listen') as listening,
  count(*) filter (where own.purpose = ' locks') as locking
from pg_stat_activity a
cross join lateral (
  select case when starts_with(a.application_name, $1) and a.datname = current_database()
    then substr(a.application_name, length($1) + 1) end as purpose) own
where a.backend_type = 'client backend'
