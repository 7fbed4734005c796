-- A page of events, newest first; first half: from all events.
-- Index: event_is_one of each partition, backwards, until the page is full.
with listed as (
  select e.seq, e.occurred_at, e.id, e.tenant, e.type, e.subject, e.key, f.fanned_out_at,
    case when f.skipped then 'skipped' when f.seq is not null then 'fanned_out'
         when x.poisoned_at is not null then 'poisoned' when x.seq is not null then 'failing'
         else 'owed' end as state,
    x.attempts, x.last_error
  from {schema}.event e
  left join {schema}.fanout f on f.seq = e.seq and f.occurred_at = e.occurred_at
  left join {schema}.fanout_failure x on x.seq = e.seq
)
