-- Fan-out, fourth part, after `jobs`: the record of who got which, and what is to be told.
-- Types that were recorded undeclared, as a setting permits, raise with their names in the hint: the
-- caller declares them and comes again. Waiting processes are told in the same statement, so that
-- the transaction is one round trip; a notification queue that is half full is left alone.
-- An event whose row is gone raises, so that its mark is not lost with it.
failed_filters as (
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
), answer as materialized (
  select (select count(*) from taken) as events,
    (select count(*) from jobs) as jobs,
    (select max(seq) from taken) as last_seq,
    (select version from {schema}.routing) as routing_version,
    (select jsonb_object_agg(subscription_id, last_error) from failed_filters) as filter_errors,
    case when exists (select from taken) and pg_notification_queue_usage() < 0.5
         then pg_notify({channel}, 'fanned') end as told,
    (select {schema}.refuse('PR008', 'type', 'types must be declared first', to_json(array_agg(distinct f.type))::text)
      from fact f
      where not exists (select from wanted w where w.seq = f.seq)
        and not exists (select from {schema}.event_type t where t.type = f.type)
      having count(*) > 0) as declared,
    case when current_setting('postrider.routing', true) is distinct from 'shared' then {schema}.refuse(
      'PR006', 'routing', 'a fan-out ran without the routing lock') end as locked,
    case when (select count(*) from fact) < (select count(*) from taken) then {schema}.refuse(
      'PR006', 'event', 'an owed event has no row in event: its partition was dropped or its row deleted by hand') end as whole
)
