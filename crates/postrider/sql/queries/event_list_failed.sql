-- A page of events, newest first; first half: from the failing and poisoned ones, which are few.
-- Index: fanout_failure_pkey, backwards. An event whose own row is gone is shown without it.
with listed as (
  select x.seq, x.occurred_at, e.id, x.tenant, coalesce(e.type, '(row is gone)') as type,
    coalesce(e.subject, '') as subject, x.key, null::timestamptz as fanned_out_at,
    case when x.poisoned_at is not null then 'poisoned' else 'failing' end as state,
    x.attempts, x.last_error
  from {schema}.fanout_failure x
  left join {schema}.event e on e.seq = x.seq and e.occurred_at = x.occurred_at
)
