-- `watch` and `unwatch`: triggers that record the changes of a table.
--
-- A trigger function is generated for each watch. It runs with the rights of Postrider's owner, so the
-- role that writes the table needs none; hence it must never run code of the table's owner. Values leave
-- a row by the output function of their type, with `format`, and are read again as a built-in type: a
-- cast or an operator that somebody made for a type of theirs is never called, also not after a column
-- got another type. Rows are compared by their images for the same reason, which moreover sees any
-- change: `1.0` against `1.00`, and types that have no equality.

-- The number of a column, or a refusal.
create or replace function {schema}.watch_column(relation regclass, name text, field text)
  returns smallint language plpgsql as $$
declare
  found_number smallint;
begin
  select a.attnum into found_number from pg_attribute a
    where a.attrelid = relation and a.attname = $2 and a.attnum > 0 and not a.attisdropped;
  if not found then
    perform {schema}.refuse('PR002', field,
      format('%s: the table %s has no column %s', field, relation, to_json(name)),
      (select 'Its columns: ' || string_agg(a.attname, ', ' order by a.attnum) || '.'
       from pg_attribute a where a.attrelid = relation and a.attnum > 0 and not a.attisdropped));
  end if;
  return found_number;
end
$$;

-- The columns of the primary key in its order; none when there is no key.
create or replace function {schema}.watch_key(relation regclass) returns text[]
  language sql stable as $$
  select coalesce(array_agg(a.attname::text order by k.place), '{}')
  from pg_index i
  cross join lateral unnest(i.indkey::smallint[]) with ordinality k(number, place)
  join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.number
  where i.indrelid = relation and i.indisprimary and k.place <= i.indnkeyatts
$$;

-- The expression that turns a column into JSON. Types of PostgreSQL's own keep their form; arrays of
-- others become arrays of texts, all else a text.
create or replace function {schema}.watch_value(relation regclass, name text, row_name text)
  returns text language sql stable as $$
  with recursive base(id, category, element) as (
    select t.oid, t.typcategory, t.typelem from pg_attribute a join pg_type t on t.oid = a.atttypid
      where a.attrelid = relation and a.attname = $2 and a.attnum > 0
    union all
    select t.oid, t.typcategory, t.typelem from base b
      join pg_type d on d.oid = b.id and d.typtype = 'd' join pg_type t on t.oid = d.typbasetype
  )
  select format('case when num_nulls(%1$s.%2$I) = 0 then to_jsonb(format(''%%s'', %1$s.%2$I)%3$s) end',
    row_name, name, case
      -- Numbers below this one belong to PostgreSQL itself.
      when b.id < 16384 and b.category <> 'S' then '::' || format_type(b.id, -1)
      when b.id >= 16384 and b.category = 'A' then '::text[]' else '' end)
  from base b join pg_type t on t.oid = b.id where t.typtype <> 'd'
$$;

-- The expression of an object of columns. A call takes a hundred arguments, so it may be several.
create or replace function {schema}.watch_object(relation regclass, names text[], row_name text)
  returns text language sql stable as $$
  select string_agg(part.call, ' || ' order by part.piece)
  from (
    select (n.place - 1) / 40 as piece, format('jsonb_build_object(%s)', string_agg(
      format('%L::text, %s', n.name, {schema}.watch_value(relation, n.name, row_name)), ', '
      order by n.place)) as call
    from unnest(names) with ordinality n(name, place) group by 1
  ) part
$$;

-- The expression of whether some of the columns differ between `old` and `new`. With the cast, these are
-- rows to be compared as such; without it, column by column with the operators of their types.
create or replace function {schema}.watch_differs(names text[]) returns text
  language sql immutable as $$
  select format('row(%s)::record operator(pg_catalog.*<>) row(%s)::record',
    string_agg(format('old.%I', n.name), ', ' order by n.place),
    string_agg(format('new.%I', n.name), ', ' order by n.place))
  from unnest(names) with ordinality n(name, place)
$$;

-- Refuses a column that cannot be part of a subject, key or tenant.
create or replace function {schema}.check_watch_part(relation regclass, name text, field text)
  returns void language plpgsql as $$
declare
  part record;
begin
  select a.attnotnull, t.typcategory, format_type(a.atttypid, a.atttypmod) as type into part
  from pg_attribute a join pg_type t on t.oid = a.atttypid
  where a.attrelid = relation and a.attnum = {schema}.watch_column(relation, name, field);
  if not part.attnotnull then
    perform {schema}.refuse('PR002', field,
      format('%s: the column %s may be null', field, to_json(name)),
      format('Use columns that are never null, or run: alter table %s alter column %I set not null',
        relation, name));
  elsif part.typcategory not in ('N', 'S', 'D', 'B', 'E', 'I') and part.type <> 'uuid' then
    perform {schema}.refuse('PR002', field,
      format('%s: the column %s is of type %s, which names nothing', field, to_json(name), part.type),
      'Use numbers, texts, dates, times, UUIDs, enums, addresses or booleans.');
  end if;
end
$$;

-- Compiles a template such as `order:{id}` for a row: `format` with its columns.
create or replace function {schema}.watch_template(
  relation regclass, template text, row_name text, field text) returns text
  language plpgsql as $$
declare
  parts text := '';
  name text;
begin
  if regexp_replace(template, '\{[^{}]+\}', '', 'g') ~ '[{}]' then
    perform {schema}.refuse('PR002', field,
      format('%s: %s has a brace without its pair', field, to_json(template)),
      'Columns are written in braces, such as order:{id}.');
  end if;
  for name in select m[1] from regexp_matches(template, '\{([^{}]+)\}', 'g') m loop
    perform {schema}.check_watch_part(relation, name, field);
    parts := parts || format(', %s.%I', row_name, name);
  end loop;
  return format('format(%L%s)',
    regexp_replace(replace(template, '%', '%%'), '\{[^{}]+\}', '%s', 'g'), parts);
end
$$;

-- The call that records one change; `data` is an expression.
create or replace function {schema}.watch_call(
  w {schema}.watch, relation regclass, row_name text, data text) returns text
  language sql stable as $$
  select format('    perform %s.record(%L, %s, %s, key => %s, tenant => %s);', {schema_literal}, w.type,
    {schema}.watch_template(relation, w.subject, row_name, 'subject'), data,
    case when w.key is null then 'null'
      else {schema}.watch_template(relation, w.key, row_name, 'key') end,
    {schema}.watch_template(relation, w.tenant, row_name, 'tenant'))
$$;

-- Values that would make an event too large are left out of it, so that the write succeeds.
create or replace function {schema}.watch_fit(data jsonb) returns jsonb
  language sql stable as $$
  select case when octet_length(data::text) <= s.data_bytes_max then data
    else data - 'old' - 'new' || '{"values_left_out": true}' end
  from {schema}.setting s
$$;

-- The body of the trigger function.
create or replace function {schema}.watch_body(w {schema}.watch, relation regclass) returns text
  language plpgsql stable as $$
declare
  key text[] := {schema}.watch_key(relation);
  with_new text := '';
  with_old text := '';
  of_old text := {schema}.watch_object(relation, w.columns, 'old');
  changed text;
begin
  select string_agg(format('case when %s then %L::text end', {schema}.watch_differs(array[c.name]), c.name),
    ', ' order by c.place) into changed
  from unnest(w.columns || array(select unnest(key) except select unnest(w.columns) order by 1))
    with ordinality c(name, place);
  if w.include in ('new', 'both') then
    with_new := format(', ''new'', %s', {schema}.watch_object(relation, w.columns, 'new'));
  end if;
  if w.include in ('old', 'both') then
    with_old := format(', ''old'', %s', of_old);
  end if;
  return format(E'declare\n  data jsonb;\nbegin\n  if tg_op = ''INSERT'' then\n    data := %s;\n%s\n',
      format('jsonb_build_object(''op'', ''created'', ''key'', %s%s)',
        {schema}.watch_object(relation, key, 'new'), with_new),
      {schema}.watch_call(w, relation, 'new', case when with_new = '' then 'data'
        else format('%s.watch_fit(data)', {schema_literal}) end))
    || format(E'  elsif tg_op = ''DELETE'' then\n    data := %s;\n%s\n',
      format('jsonb_build_object(''op'', ''deleted'', ''key'', %s, ''old'', %s)',
        {schema}.watch_object(relation, key, 'old'), of_old),
      {schema}.watch_call(w, relation, 'old', format('%s.watch_fit(data)', {schema_literal})))
    || format(E'  else\n    data := %s;\n    if %s then\n      data := data || %s;\n    end if;\n%s\n',
      format('jsonb_build_object(''op'', ''updated'', ''key'', %s, ''changed'', '
        'to_jsonb(array_remove(array[%s], null))%s%s)',
        {schema}.watch_object(relation, key, 'new'), changed, with_old, with_new),
      {schema}.watch_differs(key),
      format('jsonb_build_object(''old_key'', %s)', {schema}.watch_object(relation, key, 'old')),
      {schema}.watch_call(w, relation, 'new', case when with_old || with_new = '' then 'data'
        else format('%s.watch_fit(data)', {schema_literal}) end))
    || E'  end if;\n  return null;\nend';
end
$$;

-- The statements that put a watch in force, in order.
create or replace function {schema}.watch_statements(w {schema}.watch, relation regclass) returns text[]
  language sql stable as $$
  with names as (
    select format('%s.%I', {schema_literal}, 'watch_' || w.id) as function,
      -- Two schemas of Postrider may watch one table.
      format('%s_watch_%s', left(s.nspname, 30), w.id) as trigger, r.rolname as owner
    from pg_namespace s join pg_roles r on r.oid = s.nspowner
    where s.oid = {schema_literal}::regnamespace
  )
  select array[
    format('create function %s() returns trigger language plpgsql security definer '
      'set search_path = pg_catalog, pg_temp set timezone = ''UTC'' set datestyle = ''ISO'' '
      'set intervalstyle = ''postgres'' set bytea_output = ''hex'' set extra_float_digits = 1 as %L',
      function, {schema}.watch_body(w, relation)),
    format('revoke all on function %s() from public', function),
    format('alter function %s() owner to %I', function, owner),
    format('create trigger %I after insert or delete on %s for each row execute function %s()',
      trigger || '_rows', relation, function),
    format('create trigger %I after update on %s for each row when (%s) execute function %s()',
      trigger || '_update', relation,
      {schema}.watch_differs(w.columns || {schema}.watch_key(relation)), function)]
  from names
$$;

-- Refuses what cannot be watched.
create or replace function {schema}.check_watched(relation regclass) returns void
  language plpgsql as $$
declare
  class pg_class;
begin
  select * into class from pg_class c where c.oid = relation;
  if not found then
    perform {schema}.refuse('PR002', 'table', 'table: is missing');
  elsif class.relkind not in ('r', 'p') or class.relpersistence = 't' then
    perform {schema}.refuse('PR002', 'table',
      format('table: %s is a view, a temporary or a foreign table', relation),
      'Only tables that this database keeps are watched.');
  elsif class.relnamespace in ({schema_literal}::regnamespace, 'pg_catalog'::regnamespace) then
    perform {schema}.refuse('PR002', 'table', format('table: %s is not yours to watch', relation),
      'Watch the tables of an application.');
  elsif {schema}.watch_key(relation) = '{}' then
    perform {schema}.refuse('PR002', 'table', format('table: %s has no primary key', relation),
      format('An event says which row it is about; run: alter table %s add primary key (...)', relation));
  end if;
end
$$;

-- Ends a watch. Dropping the function takes the triggers along, whatever the table is called by now.
-- Returns whether there was one.
create or replace function {schema}.unwatch(relation regclass, type text) returns boolean
  language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  ended integer;
  place text;
begin
  for ended in
    select w.id from {schema}.watch w
    where w.type = $2 and (
      exists (select from pg_trigger g where g.tgrelid = relation
        and g.tgfoid = to_regprocedure(format('%s.watch_%s()', {schema_literal}, w.id)))
      or exists (select from pg_class c join pg_namespace n on n.oid = c.relnamespace
        where c.oid = relation and n.nspname = w.schema_name and c.relname = w.table_name))
  loop
    execute format('drop function if exists %s.watch_%s() cascade', {schema_literal}, ended);
    delete from {schema}.watch w where w.id = ended;
  end loop;
  return ended is not null;
end
$$;

-- Makes each change of a table an event of `type` whose subject, key and tenant are templates over its
-- columns. A second call for a table and type replaces the first. Returns the number of the watch.
create or replace function {schema}.watch(
  relation regclass, type text, subject text, columns text[] default null, include text default 'none',
  key text default null, tenant text default '') returns integer
  language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  made {schema}.watch;
  statement text;
  name text;
begin
  perform {schema}.check_watched(relation);
  if left($2, 10) = 'postrider.' or not exists (select from {schema}.event_type t where t.type = $2) then
    perform {schema}.check_undeclared($2, null);
  end if;
  perform {schema}.check_text('subject', $3, 1024, null);
  if $5 is null or $5 not in ('none', 'new', 'old', 'both') then
    perform {schema}.refuse('PR002', 'include',
      format('include: %s is none of none, new, old, both', coalesce(to_json($5)::text, 'null')));
  end if;
  if $4 is null then
    select array_agg(a.attname::text order by a.attnum) into columns from pg_attribute a
      where a.attrelid = relation and a.attnum > 0 and not a.attisdropped;
  elsif cardinality($4) = 0 then
    perform {schema}.refuse('PR002', 'columns', 'columns: name no column',
      'Leave them out to watch all columns.');
  end if;
  foreach name in array columns loop
    perform {schema}.watch_column(relation, name, 'columns');
  end loop;
  perform {schema}.unwatch(relation, $2);
  insert into {schema}.watch as w
      (schema_name, table_name, type, subject, key, tenant, columns, include)
    select n.nspname, c.relname, $2, $3, $6, coalesce($7, ''), $4, $5
    from pg_class c join pg_namespace n on n.oid = c.relnamespace where c.oid = relation
    returning w.* into made;
  foreach statement in array {schema}.watch_statements(made, relation) loop
    execute statement;
  end loop;
  return made.id;
end
$$;
