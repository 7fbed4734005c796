-- Whether Postrider was ever installed in the schema. Needs no right on it.
select exists (
  select from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
  where '"' || replace(n.nspname, '"', '""') || '"' = {schema_literal} and c.relname = 'function_set')
