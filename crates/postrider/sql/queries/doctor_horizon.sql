-- Who holds the vacuum horizon back, the oldest first: sessions, prepared transactions, replication
-- slots, standbys. This session is left out. `held_ms` is null where nobody knows since when,
-- `query_ms` is since when the last statement runs or ended.
select who.kind, who.name, who.application, who.detail, age(who.xid)::bigint as transactions,
  who.held_ms, who.query_ms
from (
  select 'session' as kind, a.pid::text as name, coalesce(a.application_name, '') as application,
    concat_ws(', ', nullif(a.usename, ''), a.datname, a.state) as detail,
    coalesce(a.backend_xmin, a.backend_xid) as xid,
    (extract(epoch from clock_timestamp() - a.xact_start) * 1000)::bigint as held_ms,
    (extract(epoch from clock_timestamp()
      - case a.state when 'active' then a.query_start else a.state_change end) * 1000)::bigint as query_ms
  from pg_stat_activity a
  where a.pid <> pg_backend_pid() and coalesce(a.backend_xmin, a.backend_xid) is not null
    and a.backend_type = 'client backend'
  union all
  select 'prepared', x.gid, '', x.owner || ', ' || x.database, x.transaction,
    (extract(epoch from clock_timestamp() - x.prepared) * 1000)::bigint, null
  from pg_prepared_xacts x
  union all
  select 'slot', r.slot_name::text, '', case when r.active then 'active' else 'not in use' end,
    r.xmin, null, null
  from pg_replication_slots r where r.xmin is not null
  union all
  select 'standby', w.pid::text, coalesce(w.application_name, ''), coalesce(w.state, ''),
    w.backend_xmin, null, null
  from pg_stat_replication w where w.backend_xmin is not null
) who
order by age(who.xid) desc
limit 5
