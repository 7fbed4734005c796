-- Fan-out, second half, after `taken (seq, occurred_at)`: one job for each event and subscription
-- that wants it, and the record of who got which.
-- Indexes: event_is_one of the day's partition, a_type_routes_once, subscription_pkey.
-- `undeclared` names types that were recorded undeclared, as a setting permits: the caller rolls
-- back, declares them and comes again.
-- An event whose row is gone raises, so that its mark is not lost with it.
fact as materialized (
  select e.* from taken t cross join lateral (
    select * from {schema}.event e where e.seq = t.seq and e.occurred_at = t.occurred_at limit 1) e
), wanted as materialized (
  select f.seq, f.occurred_at, f.tenant, f.subject, s.id as subscription_id, s.priority, s.coalesces,
    case when s.filter is null then 'yes' else {schema}.filter_verdict(s.filter,
      jsonb_build_object('id', f.id, 'type', f.type, 'tenant', f.tenant, 'subject', f.subject,
        'key', f.key, 'occurred_at', f.occurred_at, 'data', f.data,
        'headers', coalesce(f.headers, '{}'))) end as verdict
  from fact f
  join {schema}.route r on r.type = f.type
  join {schema}.subscription s on s.id = r.subscription_id
  where (s.tenant is null or s.tenant = f.tenant) and s.deleted_at is null
), kept as materialized (
  select w.*, w.seq as leader from wanted w where not w.coalesces and w.verdict <> 'no'
  union all
  select w.*, max(w.seq) over (
    partition by w.subscription_id, w.tenant, w.subject, w.verdict = 'yes') as leader
  from wanted w where w.coalesces and w.verdict <> 'no'
), made as materialized (
  select k.*, nextval('{schema}.job_id_seq') as job_id from kept k where k.seq = k.leader
), jobs as (
  insert into {schema}.job (id, event_seq, event_occurred_at, due_at, created_at, subscription_id,
    origin, priority, tenant)
  select m.job_id, m.seq, m.occurred_at, now() + $3 * interval '1 microsecond',
    now() + $3 * interval '1 microsecond', m.subscription_id, 'fanout', m.priority, m.tenant
  from made m where m.verdict = 'yes'
  returning 1
), failed_filters as (
  insert into {schema}.job_history (id, event_seq, event_occurred_at, finished_at, created_at,
    subscription_id, attempt, extra_attempts, state, origin, priority, tenant, last_error)
  select m.job_id, m.seq, m.occurred_at, now() + $3 * interval '1 microsecond',
    now() + $3 * interval '1 microsecond', m.subscription_id, 0, 0, 'discarded', 'fanout',
    m.priority, m.tenant, m.verdict
  from made m where m.verdict <> 'yes'
  returning subscription_id, last_error
), recorded as (
  insert into {schema}.fanout (seq, occurred_at, fanned_out_at, routing_version, subscription_ids,
    job_ids, coalesced_into)
  select t.seq, t.occurred_at, now() + $3 * interval '1 microsecond',
    (select version from {schema}.routing),
    coalesce(array_agg(m.subscription_id) filter (where m.job_id is not null), '{}'),
    coalesce(array_agg(m.job_id) filter (where m.job_id is not null), '{}'),
    case when bool_or(m.seq <> t.seq)
         then array_agg(nullif(m.seq, t.seq)) filter (where m.job_id is not null) end
  from taken t
  left join kept k on k.seq = t.seq
  left join made m on m.subscription_id = k.subscription_id and m.seq = k.leader
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
