-- What the current role may not do although an engine must: for each object one row with the
-- privileges it lacks, as a grant would name both. No row: all is granted. Reads the catalog alone.
with needed(kind, name, privileges) as (values
  ('table', 'migration', 'select'), ('table', 'function_set', 'select'), ('table', 'setting', 'select'),
  ('table', 'event_type', 'select, insert, update'),
  ('table', 'subscription', 'select, insert, update'), ('table', 'route', 'select, insert, delete'),
  ('table', 'routing', 'select, update'), ('table', 'event', 'select'),
  ('table', 'event_default', 'select, delete'), ('table', 'fanout_default', 'select, delete'),
  ('table', 'owed', 'select, update, delete'),
  ('table', 'fanout_failure', 'select, insert, update, delete'),
  ('table', 'fanout', 'select, insert'), ('table', 'session', 'select, insert, update, delete'),
  ('table', 'registration', 'select, insert, update, delete'),
  ('table', 'lease', 'select, insert, delete'), ('table', 'job', 'select, insert, update, delete'),
  ('table', 'job_history', 'select, insert, delete'), ('table', 'job_attempt', 'select, insert'),
  ('table', 'record_key', 'select, update, delete'), ('table', 'unique_key', 'select, update, delete'),
  ('table', 'periodic', 'select, insert, update, delete'),
  ('table', 'periodic_tick', 'select, insert, delete'),
  -- These the doctor alone reads.
  ('table', 'job_completed_default', 'select'), ('table', 'job_discarded_default', 'select'),
  ('table', 'job_attempt_default', 'select'),
  ('sequence', 'job_id_seq', 'usage, select'), ('sequence', 'event_seq', 'select'),
  ('function', 'complete', 'execute'), ('function', 'refuse', 'execute'),
  ('function', 'filter_verdict', 'execute'), ('function', 'partitions_of', 'execute'),
  ('function', 'make_partitions', 'execute'), ('function', 'drop_event_day', 'execute'),
  ('function', 'drop_history_day', 'execute')
), each as (
  select n.kind, n.name, p.privilege from needed n
  cross join regexp_split_to_table(n.privileges, ', ') p(privilege)
), lacking as (
  select 'schema ' || {schema_literal} as object, 'usage' as privilege
  from pg_namespace s
  where s.oid = to_regnamespace({schema_literal}) and not has_schema_privilege(s.oid, 'usage')
  union all
  select 'table ' || {schema_literal} || '.' || quote_ident(c.relname), n.privilege
  from each n
  join pg_class c on c.relname = n.name and c.relnamespace = to_regnamespace({schema_literal})
  where n.kind = 'table'
    and case when c.relkind in ('r', 'p') then not has_table_privilege(c.oid, n.privilege) end
  union all
  select 'sequence ' || {schema_literal} || '.' || quote_ident(c.relname), n.privilege
  from each n
  join pg_class c on c.relname = n.name and c.relnamespace = to_regnamespace({schema_literal})
  where n.kind = 'sequence'
    and case when c.relkind = 'S' then not has_sequence_privilege(c.oid, n.privilege) end
  union all
  select 'function ' || {schema_literal} || '.' || quote_ident(p.proname), n.privilege
  from each n
  join pg_proc p on p.proname = n.name and p.pronamespace = to_regnamespace({schema_literal})
  where n.kind = 'function' and not has_function_privilege(p.oid, n.privilege)
)
select object, string_agg(privilege, ', ' order by privilege) as privileges,
  quote_ident(current_user) as role
from lacking group by object order by object
