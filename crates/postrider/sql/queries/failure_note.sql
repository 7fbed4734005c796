-- Writes down why a try failed; the last permitted one poisons the event.
-- $1 seq, $2 the attempt (the fence), $3 the error, $4 most attempts, $5 clock shift in
-- microseconds. Index: fanout_failure_pkey. Returns whether it is poisoned now; no row: somebody
-- else has moved the event on.
update {schema}.fanout_failure f
set last_error = $3,
  retry_at = case when f.attempts >= $4 then null else f.retry_at end,
  poisoned_at = case when f.attempts >= $4 then now() + $5 * interval '1 microsecond' end
where f.seq = $1 and f.attempts = $2 and f.poisoned_at is null
returning f.poisoned_at is not null as poisoned
