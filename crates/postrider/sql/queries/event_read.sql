-- One event whole. $1 seq, $2 occurred_at. Index: event_is_one of one partition.
-- No row: it is gone.
select e.id as event_id, e.seq, e.tenant, e.type, e.subject, e.key, e.occurred_at, e.data, e.body,
  e.content_type, e.headers
from {schema}.event e where e.seq = $1 and e.occurred_at = $2
