-- Second look: the next transaction id that will be handed out, the oldest still running, and the
-- smallest owed event that is visible, locked or not. $1 current floor. Index: owed_pkey, from the
-- floor on. The snapshot's own upper end will not do for the next id: it is one past the newest
-- transaction that has *ended*, and a writer may run with an id beyond it. `age` counts from the
-- next id on and uses none up.
select pg_snapshot_xmin(s)::text::bigint + age(pg_snapshot_xmin(s)::xid) as next_id,
  pg_snapshot_xmin(s)::text::bigint as oldest_id,
  (select min(o.seq) from {schema}.owed o where o.seq > $1) as oldest_owed
from pg_current_snapshot() s
