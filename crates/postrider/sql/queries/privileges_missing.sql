-- What the current role may not do although an engine must; for each object one row with the
-- privileges it lacks, as a grant would name both. No row: all is granted. What is missing itself is no
-- matter of privileges.
with needed(kind, name, privileges) as (
  values
    ('table', 'event', 'select'),
    ('table', 'event_default', 'select, delete'),
    ('table', 'event_type', 'select, insert, update'),
    ('table', 'fanout', 'select, insert'),
    ('table', 'fanout_default', 'select, delete'),
    ('table', 'fanout_failure', 'select, insert, update, delete'),
    ('table', 'function_set', 'select'),
    ('table', 'job', 'select, insert, update, delete'),
    ('table', 'job_attempt', 'select, insert'),
    ('table', 'job_attempt_default', 'select'),
    ('table', 'job_completed_default', 'select'),
    ('table', 'job_discarded_default', 'select'),
    ('table', 'job_history', 'select, insert, delete'),
    ('table', 'lease', 'select, insert, delete'),
    ('table', 'migration', 'select'),
    ('table', 'owed', 'select, update, delete'),
    ('table', 'periodic', 'select, insert, update, delete'),
    ('table', 'periodic_tick', 'select, insert, delete'),
    ('table', 'record_key', 'select, update, delete'),
    ('table', 'registration', 'select, insert, update, delete'),
    ('table', 'route', 'select, insert, delete'),
    ('table', 'routing', 'select, update'),
    ('table', 'session', 'select, insert, update, delete'),
    ('table', 'setting', 'select'),
    ('table', 'subscription', 'select, insert, update'),
    ('table', 'unique_key', 'select, update, delete'),
    ('sequence', 'event_seq', 'select'),
    ('sequence', 'job_id_seq', 'usage, select'),
    ('function', 'complete', 'execute'),
    ('function', 'drop_event_day', 'execute'),
    ('function', 'drop_history_day', 'execute'),
    ('function', 'filter_verdict', 'execute'),
    ('function', 'make_partitions', 'execute'),
    ('function', 'partitions_of', 'execute'),
    ('function', 'refuse', 'execute')
), each_one as (
  select n.kind, n.name, trim(p.privilege) as privilege, p.place
  from needed n cross join string_to_table(n.privileges, ',') with ordinality p(privilege, place)
), lacking as (
  select n.kind || ' ' || {schema_literal} || '.' || quote_ident(n.name) as object,
    n.privilege, n.place
  from each_one n
  cross join to_regclass({schema_literal} || '.' || quote_ident(n.name)) t(class)
  where n.kind <> 'function' and not case n.kind
    when 'table' then has_table_privilege(t.class, n.privilege)
    else has_sequence_privilege(t.class, n.privilege) end
  union all
  select 'function ' || {schema_literal} || '.' || quote_ident(p.proname)
    || '(' || pg_get_function_identity_arguments(p.oid) || ')', n.privilege, n.place
  from each_one n
  join pg_proc p on p.proname = n.name and p.pronamespace = {schema_literal}::regnamespace
  where n.kind = 'function' and not has_function_privilege(p.oid, n.privilege)
)
select object, string_agg(privilege, ', ' order by place) as privileges,
  quote_ident(current_user) as role
from lacking group by object order by object
