-- The schema and the table of applied steps.
create schema if not exists {schema};
revoke all on schema {schema} from public;
create table if not exists {schema}.migration (
  version integer primary key,
  name text not null,
  applied_at timestamptz not null default clock_timestamp()
);
create table if not exists {schema}.function_set (
  only_row boolean primary key default true,
  revision integer not null,
  constraint there_is_one_row check (only_row)
);
insert into {schema}.function_set (revision) values (0) on conflict do nothing;
