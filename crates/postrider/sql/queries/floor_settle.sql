-- Second look: the next transaction id, the oldest still running, and the smallest owed event
-- that is visible, locked or not. $1 current floor. Index: owed_pkey, from the floor on. Always one
-- row.
-- A snapshot ends after the last transaction that has ended, so a running one may lie beyond it;
-- `age` counts from the id that is handed out next. It does so in 32 bits, hence the arithmetic.
select s.last + ((age('3'::xid)::bigint + 3 - s.last) & 4294967295) as next_id,
  s.oldest as oldest_id,
  (select min(o.seq) from {schema}.owed o where o.seq > $1) as oldest_owed
from (select pg_snapshot_xmax(pg_current_snapshot())::text::bigint as last,
        pg_snapshot_xmin(pg_current_snapshot())::text::bigint as oldest) s
