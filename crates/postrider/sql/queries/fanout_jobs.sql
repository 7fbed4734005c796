-- Fan-out, second half, after `taken (seq, occurred_at)`: one job for each event and subscription
-- that wants it, and the record of who got which.
-- Indexes: event_is_one of the day's partition, a_type_routes_once, subscription_pkey.
-- `undeclared` names types that were recorded undeclared, as a setting permits: the caller rolls
-- back, declares them and comes again.
-- An event whose row is gone raises, so that its mark is not lost with it.
fact as materialized (
  select e.seq, e.occurred_at, e.tenant, e.type, e.subject
  from taken t cross join lateral (
    select * from {schema}.event e where e.seq = t.seq and e.occurred_at = t.occurred_at limit 1) e
), wanted as materialized (
  -- `failure` is the text of a filter that failed; an event that a filter refused is not wanted.
  select f.seq, f.occurred_at, f.tenant, f.subject, s.id as subscription_id, s.priority, s.coalesces,
    case when s.filter is not null then (
      select {schema}.filter_verdict(s.filter, jsonb_build_object('id', e.id, 'type', e.type,
        'tenant', e.tenant, 'subject', e.subject, 'key', e.key, 'occurred_at', e.occurred_at,
        'data', e.data, 'headers', coalesce(e.headers, '{}')))
      from {schema}.event e where e.seq = f.seq and e.occurred_at = f.occurred_at) end as failure
  from fact f
  join {schema}.route r on r.type = f.type
  join {schema}.subscription s on s.id = r.subscription_id
  where (s.tenant is null or s.tenant = f.tenant) and s.deleted_at is null
), kept as materialized (
  -- A job's number is drawn here, so that the record below needs no join with the jobs.
  select w.seq, w.seq as leader, nextval('{schema_in_literal}.job_id_seq') as job_id, w.occurred_at, w.tenant,
    w.subscription_id, w.priority, w.failure
  from wanted w where not w.coalesces and w.failure is distinct from 'no'
  union all
  select c.seq, first_value(c.seq) over latest, first_value(c.draw) over latest, c.occurred_at,
    c.tenant, c.subscription_id, c.priority, c.failure
  from (
    select w.*, nextval('{schema_in_literal}.job_id_seq') as draw
    from wanted w where w.coalesces and w.failure is distinct from 'no') c
  window latest as (
    partition by c.subscription_id, c.tenant, c.subject, c.failure is null order by c.seq desc)
), jobs as (
  insert into {schema}.job (id, event_seq, event_occurred_at, due_at, created_at, subscription_id,
    origin, priority, tenant)
  select k.job_id, k.seq, k.occurred_at, now() + $3 * interval '1 microsecond',
    now() + $3 * interval '1 microsecond', k.subscription_id, 'fanout', k.priority, k.tenant
  from kept k where k.seq = k.leader and k.failure is null
  returning 1
), failed_filters as (
  insert into {schema}.job_history (id, event_seq, event_occurred_at, finished_at, created_at,
    subscription_id, attempt, extra_attempts, state, origin, priority, tenant, last_error)
  select k.job_id, k.seq, k.occurred_at, now() + $3 * interval '1 microsecond',
    now() + $3 * interval '1 microsecond', k.subscription_id, 0, 0, 'discarded', 'fanout',
    k.priority, k.tenant, k.failure
  from kept k where k.seq = k.leader and k.failure is not null
  returning subscription_id, last_error
), recorded as (
  insert into {schema}.fanout (seq, occurred_at, fanned_out_at, routing_version, subscription_ids,
    job_ids, coalesced_into)
  select t.seq, t.occurred_at, now() + $3 * interval '1 microsecond',
    (select version from {schema}.routing),
    coalesce(array_agg(k.subscription_id) filter (where k.job_id is not null), '{}'),
    coalesce(array_agg(k.job_id) filter (where k.job_id is not null), '{}'),
    case when bool_or(k.leader <> t.seq)
         then array_agg(nullif(k.leader, t.seq)) filter (where k.job_id is not null) end
  from taken t
  left join kept k on k.seq = t.seq
  group by t.seq, t.occurred_at
)
select (select count(*) from taken) as events,
  (select count(*) from jobs) as jobs,
  (select max(seq) from taken) as last_seq,
  (select version from {schema}.routing) as routing_version,
  (select jsonb_object_agg(subscription_id, last_error) from failed_filters) as filter_errors,
  (select array_agg(distinct f.type) from fact f
    where not exists (select from wanted w where w.seq = f.seq)
      and not exists (select from {schema}.event_type t where t.type = f.type)) as undeclared,
  case when (select count(*) from fact) < (select count(*) from taken) then {schema}.refuse(
    'PR006', 'event', 'an owed event has no row in event: its partition was dropped or its row deleted by hand') end
