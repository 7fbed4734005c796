-- Functions and types are open to PUBLIC when they are made; these are not.
do $$
declare
  kind record;
begin
  execute 'revoke all on all functions in schema ' || {schema_literal} || ' from public';
  execute 'revoke all on all tables in schema ' || {schema_literal} || ' from public';
  execute 'revoke all on all sequences in schema ' || {schema_literal} || ' from public';
  for kind in
    select t.typname from pg_catalog.pg_type t
    where t.typnamespace = {schema_literal}::regnamespace and t.typtype in ('d', 'e')
  loop
    execute format('revoke all on type %s.%I from public', {schema_literal}, kind.typname);
  end loop;
end
$$;
update {schema}.function_set set revision = {revision};
select {schema}.make_partitions(clock_timestamp(), {days_ahead});
