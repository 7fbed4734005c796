-- Second look: the next transaction id, the oldest still running, and the smallest owed event
-- that is visible, locked or not. $1 current floor. Index: owed_pkey, from the floor on.
select pg_snapshot_xmax(pg_current_snapshot())::text::bigint as next_id,
  pg_snapshot_xmin(pg_current_snapshot())::text::bigint as oldest_id,
  (select min(o.seq) from {schema}.owed o where o.seq > $1) as oldest_owed
