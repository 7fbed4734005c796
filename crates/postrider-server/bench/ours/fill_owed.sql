-- The ceiling's events as Postrider's, all of them owed. :n events.
truncate {schema}.event, {schema}.owed, {schema}.fanout, {schema}.job, {schema}.job_history, {schema}.lease;
insert into {schema}.event (seq, occurred_at, id, tenant, type, subject, key, data)
select nextval('{schema}.event_seq'), clock_timestamp(), gen_random_uuid(), '',
  case when i % 3 = 0 then 'order.placed' else 'corpus.note.changed' end, 'note:' || (i % 5000), 'note:' || (i % 5000),
  jsonb_build_object('op','updated','note_id',i,'published',true,'x',repeat('y',120))
from generate_series(1, :n) i;
insert into {schema}.owed select seq, occurred_at from {schema}.event;
vacuum analyze {schema}.event;
vacuum analyze {schema}.owed;
