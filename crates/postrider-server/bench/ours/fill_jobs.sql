-- Pending jobs of one subscription, each with its event. :n jobs.
truncate {schema}.event, {schema}.owed, {schema}.fanout, {schema}.job, {schema}.job_history, {schema}.lease;
insert into {schema}.event (seq, occurred_at, id, tenant, type, subject, key, data)
select nextval('{schema}.event_seq'), clock_timestamp(), gen_random_uuid(), '', 'order.placed', 'order:' || i, 'order:' || i, '{"a":1}'
from generate_series(1, :n) i;
insert into {schema}.job (event_seq, event_occurred_at, due_at, created_at, subscription_id, origin, priority, tenant)
select e.seq, e.occurred_at, clock_timestamp(), clock_timestamp(),
  (select id from {schema}.subscription where name = 'drain'), 'fanout', 2, ''
from {schema}.event e order by e.seq;
vacuum analyze {schema}.event;
vacuum analyze {schema}.job;
