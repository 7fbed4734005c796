-- A page of events, newest first; first half: from the owed ones. Index: owed_pkey, backwards.
with listed as (
  select e.seq, e.occurred_at, e.id, e.tenant, e.type, e.subject, e.key,
    null::timestamptz as fanned_out_at, 'owed' as state, null::integer as attempts,
    null::text as last_error
  from {schema}.owed o
  join {schema}.event e on e.seq = o.seq and e.occurred_at = o.occurred_at
)
