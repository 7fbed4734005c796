-- Watched tables: whose changes become events by a trigger. Only adds.

-- A table is kept by its names, not by its number: numbers do not survive a dump. Which table a watch is
-- on now, whatever it was called then, its triggers tell. See `watch`.
create table {schema}.watch (
  id integer generated always as identity primary key,
  schema_name text not null,
  table_name text not null,
  type text collate "C" not null,
  subject text not null,
  key text,
  tenant text not null,
  columns text[] not null,
  include text not null,
  watched_at timestamptz not null default clock_timestamp(),
  constraint a_table_is_watched_once_for_a_type unique (schema_name, table_name, type),
  constraint include_is_known check (include in ('none', 'new', 'old', 'both')),
  constraint columns_are_some check (cardinality(columns) between 1 and 1600)
);
