-- Jobs to act on in bulk, first half: a batch of finished ones; parameters as in bulk_unfinished.
-- Index: the primary key of job_history, a range in each partition.
with looked as materialized (
  select h.id, h.subscription_id, h.tenant, h.last_error, h.created_at, h.state::text as shown
  from {schema}.job_history h where h.id > $1 and h.id <= $2
  order by h.id limit $3
), picked as materialized (
  select l.id, l.shown from looked l
  where ($5 is null or l.subscription_id in (select s.id from {schema}.subscription s where s.name = $5))
    and ($6 is null or l.tenant = $6)
    and ($7 is null or position(lower($7) in lower(l.last_error)) > 0)
    and ($8 is null or l.created_at < $8) and ($9 is null or l.shown = any($9))
    and ($4::bigint is null or true) and ($10::timestamptz is null or true)
)
