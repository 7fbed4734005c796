-- Application jobs: kinds, arguments, unique keys and periodic jobs. Only adds and loosens, so that a
-- program of the version before goes on working.

-- A kind of jobs is a row of `subscription` that gets no events: its jobs are enqueued.
alter table {schema}.subscription
  add column source text not null default 'events',
  add constraint source_is_known check (source in ('events', 'enqueue')),
  drop constraint globs_are_few,
  add constraint globs_are_few check (
    case source when 'enqueue' then cardinality(globs) = 0 and cardinality(declared_globs) = 0
      else cardinality(globs) between 1 and 1000 and cardinality(declared_globs) between 1 and 100 end),
  add constraint a_kind_filters_nothing check (
    source <> 'enqueue' or filter is null and tenant is null and not coalesces);

-- What an enqueued job has and a delivery has not. After all other columns, and null for deliveries,
-- so that they take no room there.
alter table {schema}.job
  add column arguments jsonb,
  add column key text,
  add column tick_at timestamptz,
  add constraint arguments_are_an_enqueued_jobs check (
    arguments is null or origin = 'enqueue' and event_seq is null),
  add constraint key_fits check (octet_length(key) between 1 and 1024),
  -- A job may have fewer attempts than its kind says, so `extra_attempts` may be below zero.
  drop constraint attempts_are_counted,
  add constraint attempts_are_counted check (attempt >= 0 and extra_attempts >= -1000);
alter table {schema}.job_history
  add column arguments jsonb,
  add column key text,
  add column tick_at timestamptz;

-- Which job stands for a set of arguments that is enqueued once: the hash is over kind, tenant and
-- arguments. What became of the job decides whether it still stands; see `enqueue`.
create table {schema}.unique_key (
  hash bytea primary key,
  job_id bigint not null,
  enqueued_at timestamptz not null,
  looked_at timestamptz not null,
  constraint hash_is_sha256 check (octet_length(hash) = 32)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 20000);
-- Finds the keys whose jobs may be gone.
create index unique_key_looked on {schema}.unique_key (looked_at);

-- Schedules that enqueue a job of a kind at each tick.
create table {schema}.periodic (
  id integer generated always as identity primary key,
  name text collate "C" not null,
  kind text collate "C" not null,
  cron text not null,
  time_zone text not null,
  arguments jsonb not null,
  priority smallint,
  catch_up text not null,
  catch_up_max integer not null,
  version integer not null,
  declared_at timestamptz not null,
  paused_at timestamptz,
  next_due_at timestamptz,
  last_tick_at timestamptz,
  last_job_id bigint,
  last_state {schema}.job_state,
  last_finished_at timestamptz,
  last_error text,
  constraint periodic_name_is_unique unique (name),
  constraint name_is_well_formed check (name ~ '^[A-Za-z0-9._-]{1,128}$'),
  constraint cron_is_short check (octet_length(cron) between 1 and 255),
  constraint time_zone_is_short check (octet_length(time_zone) between 1 and 128),
  constraint priority_is_known check (priority between 1 and 4),
  constraint catch_up_is_known check (catch_up in ('skip', 'once', 'all')),
  constraint catch_up_is_bounded check (catch_up_max between 1 and 1000),
  constraint version_is_positive check (version >= 1),
  constraint a_result_has_a_job check (last_state is null or last_job_id is not null)
);
-- The schedules whose turn it is.
create index periodic_due on {schema}.periodic (next_due_at) where paused_at is null;

-- The ticks that were enqueued, for a week.
create table {schema}.periodic_tick (
  periodic_id integer not null references {schema}.periodic on delete cascade,
  tick_at timestamptz not null,
  job_id bigint not null,
  constraint a_tick_is_enqueued_once primary key (periodic_id, tick_at)
);
