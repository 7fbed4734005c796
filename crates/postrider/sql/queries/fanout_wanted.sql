-- Fan-out, second part, after `taken (seq, occurred_at)`: which subscription wants which event.
-- Indexes: event_is_one of the day's partition, a_type_routes_once, subscription_pkey.
fact as materialized (
  select e.seq, e.occurred_at, e.tenant, e.type, e.subject
  from taken t cross join lateral (
    select * from {schema}.event e where e.seq = t.seq and e.occurred_at = t.occurred_at limit 1) e
), moment as materialized (
  select now() + $3 * interval '1 microsecond' as at
), interest as materialized (
  -- Of the types at hand alone, so that the join below is small whatever is declared.
  select r.type, s.id as subscription_id, s.tenant, s.priority, s.coalesces, s.filter
  from {schema}.route r
  join {schema}.subscription s on s.id = r.subscription_id
  where r.type = any(array(select distinct f.type from fact f)) and s.deleted_at is null
), wanted as materialized (
  -- `failure` is the text of a filter that failed; an event that a filter refused is not wanted.
  -- A job's number is drawn here, so that the record below needs no join with the jobs.
  select f.seq, f.occurred_at, f.tenant, f.subject, i.subscription_id, i.priority, i.coalesces,
    case when i.filter is not null then (
      select {schema}.filter_verdict(i.filter, jsonb_build_object('id', e.id, 'type', e.type,
        'tenant', e.tenant, 'subject', e.subject, 'key', e.key, 'occurred_at', e.occurred_at,
        'data', e.data, 'headers', coalesce(e.headers, '{}')))
      from {schema}.event e where e.seq = f.seq and e.occurred_at = f.occurred_at) end as failure,
    nextval('{schema_in_literal}.job_id_seq') as draw
  from fact f
  join interest i on i.type = f.type
  where i.tenant is null or i.tenant = f.tenant
), kept as materialized (
  select w.seq, w.seq as leader, w.draw as job_id, w.occurred_at, w.tenant, w.subscription_id,
    w.priority, w.failure
  from wanted w where not w.coalesces and w.failure is distinct from 'no'
  union all
  select w.seq, first_value(w.seq) over latest, first_value(w.draw) over latest, w.occurred_at,
    w.tenant, w.subscription_id, w.priority, w.failure
  from wanted w where w.coalesces and w.failure is distinct from 'no'
  window latest as (
    partition by w.subscription_id, w.tenant, w.subject, w.failure is null order by w.seq desc)
),
