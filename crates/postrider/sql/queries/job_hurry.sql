-- Makes a pending job due now. $1 id, $2 clock shift in microseconds. Index: job_pkey.
-- `was_due` tells whether it was so already. No row: it is not pending.
with held as materialized (
  select j.id, j.due_at <= now() + $2 * interval '1 microsecond' as was_due from {schema}.job j
  where j.id = $1 and j.state = 'pending' for no key update
)
update {schema}.job j set due_at = least(j.due_at, now() + $2 * interval '1 microsecond')
from held h where j.id = h.id and j.state = 'pending'
returning h.was_due
