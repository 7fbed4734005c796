-- Fan-out, third part, after `kept`: one job for each event and subscription that wants it.
jobs as (
  insert into {schema}.job (id, event_seq, event_occurred_at, due_at, created_at, subscription_id,
    origin, priority, tenant)
  select k.job_id, k.seq, k.occurred_at, (select at from moment), (select at from moment),
    k.subscription_id, 'fanout', k.priority, k.tenant
  from kept k where k.seq = k.leader and k.failure is null
  returning 1
),
