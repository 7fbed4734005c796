-- Fan-out of one event that failed before, first half: take it out of the failures.
-- Called by the relay after the attempt was committed.
-- $1 seq, $2 the attempt that was committed (the fence), $3 clock shift in microseconds.
-- Index: fanout_failure_pkey. Taken by another relay meanwhile: one row with zeros.
with taken as (
  delete from {schema}.fanout_failure f
  where f.seq = $1 and f.attempts = $2 and f.poisoned_at is null
  returning f.seq, f.occurred_at
),
