-- Gives a failing or poisoned event up: it counts as fanned out, to nobody.
-- Called in a transaction that holds the routing lock in share mode, as a fan-out does.
-- $1 seq, $2 clock shift in microseconds. Index: fanout_failure_pkey.
-- No row: it is neither failing nor poisoned.
with gone as (
  delete from {schema}.fanout_failure x where x.seq = $1 returning x.seq, x.occurred_at
)
insert into {schema}.fanout (seq, occurred_at, fanned_out_at, routing_version, skipped,
  subscription_ids, job_ids)
select g.seq, g.occurred_at, now() + $2 * interval '1 microsecond',
  (select version from {schema}.routing), true, '{}', '{}'
from gone g
returning seq
