-- Counts the next attempt of a failed event whose turn it is, before it is tried.
-- $1 wait unit in microseconds (doubled for each attempt), $2 clock shift in microseconds,
-- $3 events of this round, which wait for its judgement however short their wait was.
-- Index: fanout_failure_due. None due: no row.
update {schema}.fanout_failure f
set attempts = least(f.attempts, 2147483646) + 1,
  retry_at = now() + ($1 * (2 ^ least(f.attempts, 10)) + $2) * interval '1 microsecond'
where f.seq = (
  select d.seq from {schema}.fanout_failure d
  where d.poisoned_at is null and d.retry_at <= now() + $2 * interval '1 microsecond'
    and d.seq <> all($3)
  order by d.retry_at limit 1 for no key update skip locked)
returning f.seq, f.attempts
