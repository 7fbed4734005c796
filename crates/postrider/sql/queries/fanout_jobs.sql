-- Fan-out, second half, after `taken (seq, occurred_at)`: one job for each event and subscription
-- that wants it, and the record of who got which.
-- Indexes: event_is_one of the day's partition, a_type_routes_once, subscription_pkey.
-- Types that were recorded undeclared, as a setting permits, raise with their names in the hint: the
-- caller declares them and comes again. Waiting processes are told in the same statement, so that
-- the transaction is one round trip; a notification queue that is half full is left alone.
-- An event whose row is gone raises, so that its mark is not lost with it.
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
), jobs as (
  insert into {schema}.job (id, event_seq, event_occurred_at, due_at, created_at, subscription_id,
    origin, priority, tenant)
  select k.job_id, k.seq, k.occurred_at, (select at from moment), (select at from moment),
    k.subscription_id, 'fanout', k.priority, k.tenant
  from kept k where k.seq = k.leader and k.failure is null
  returning 1
), failed_filters as (
  insert into {schema}.job_history (id, event_seq, event_occurred_at, finished_at, created_at,
    subscription_id, attempt, extra_attempts, state, origin, priority, tenant, last_error)
  select k.job_id, k.seq, k.occurred_at, (select at from moment), (select at from moment),
    k.subscription_id, 0, 0, 'discarded', 'fanout', k.priority, k.tenant, k.failure
  from kept k where k.seq = k.leader and k.failure is not null
  returning subscription_id, last_error
), recorded as (
  insert into {schema}.fanout (seq, occurred_at, fanned_out_at, routing_version, subscription_ids,
    job_ids, coalesced_into)
  select t.seq, t.occurred_at, (select at from moment),
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
  case when exists (select from taken) and pg_notification_queue_usage() < 0.5
       then pg_notify({channel}, 'fanned') end,
  (select {schema}.refuse('PR008', 'type', 'types must be declared first', to_json(array_agg(distinct f.type))::text)
    from fact f
    where not exists (select from wanted w where w.seq = f.seq)
      and not exists (select from {schema}.event_type t where t.type = f.type)
    having count(*) > 0),
  case when current_setting('postrider.routing', true) is distinct from 'shared' then {schema}.refuse(
    'PR006', 'routing', 'a fan-out ran without the routing lock') end,
  case when (select count(*) from fact) < (select count(*) from taken) then {schema}.refuse(
    'PR006', 'event', 'an owed event has no row in event: its partition was dropped or its row deleted by hand') end
