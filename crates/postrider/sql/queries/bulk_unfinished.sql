-- Jobs to act on in bulk, first half: a batch of unfinished ones, in the order of their ids, and those
-- of them that are meant. $1 above this id, $2 up to this id, $3 most rows to look at, $4 clock shift
-- in microseconds, $5 subscription, $6 tenant, $7 a part of the error text, $8 created before,
-- $9 states as people see them, all of these null for any; $10 a new due time, for a move.
-- Index: job_pkey, a range.
with looked as materialized (
  select j.id, j.subscription_id, j.tenant, j.last_error, j.created_at,
    case when j.state <> 'pending' or j.due_at <= now() + $4 * interval '1 microsecond'
        then j.state::text
      when j.attempt = 0 then 'scheduled' else 'retryable' end as shown
  from {schema}.job j where j.id > $1 and j.id <= $2
  order by j.id limit $3
), picked as materialized (
  select l.id, l.shown from looked l
  where ($5 is null or l.subscription_id in (select s.id from {schema}.subscription s where s.name = $5))
    and ($6 is null or l.tenant = $6)
    and ($7 is null or position(lower($7) in lower(l.last_error)) > 0)
    and ($8 is null or l.created_at < $8) and ($9 is null or l.shown = any($9))
    and ($10::timestamptz is null or true)
)
