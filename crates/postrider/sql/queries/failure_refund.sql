-- Gives back an attempt to events whose try failed for a reason that was not theirs.
-- $1 seqs. Index: fanout_failure_pkey.
update {schema}.fanout_failure f set attempts = greatest(f.attempts - 1, 0)
where f.seq = any($1) and f.poisoned_at is null
