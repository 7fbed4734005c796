-- Who holds the vacuum horizon back, the oldest first: sessions, prepared transactions, replication
-- slots, standbys. This session is left out. `held_ms` is null where nobody knows since when.
select who.kind, who.name, who.detail, age(who.xid)::bigint as transactions, who.held_ms
from (
  select 'session' as kind, 'pid ' || a.pid as name,
    concat_ws(', ', nullif(a.usename, ''), nullif(a.application_name, ''), a.state) as detail,
    coalesce(a.backend_xmin, a.backend_xid) as xid,
    (extract(epoch from clock_timestamp() - a.xact_start) * 1000)::bigint as held_ms
  from pg_stat_activity a
  where a.pid <> pg_backend_pid() and coalesce(a.backend_xmin, a.backend_xid) is not null
    and a.backend_type = 'client backend'
  union all
  select 'prepared transaction', x.gid, x.owner || ' in ' || x.database, x.transaction,
    (extract(epoch from clock_timestamp() - x.prepared) * 1000)::bigint
  from pg_prepared_xacts x
  union all
  select 'replication slot', r.slot_name::text, case when r.active then 'active' else 'not in use' end,
    r.xmin, null
  from pg_replication_slots r where r.xmin is not null
  union all
  select 'standby', 'pid ' || w.pid, w.application_name, w.backend_xmin, null
  from pg_stat_replication w where w.backend_xmin is not null
) who
order by age(who.xid) desc
limit 5
