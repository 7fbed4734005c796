-- Puts a failing or poisoned event back: all its attempts again, the first at once.
-- $1 seq, $2 clock shift in microseconds. Index: fanout_failure_pkey.
-- No row: it is neither failing nor poisoned.
update {schema}.fanout_failure x
set attempts = 0, retry_at = now() + $2 * interval '1 microsecond', poisoned_at = null
where x.seq = $1
returning x.seq
