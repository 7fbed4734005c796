-- The first schema: types, subscriptions and routes; events and what is owed; jobs and leases.
-- The source of this text names no schema: its placeholders are replaced by the quoted name, or by
-- the same within a literal, before it is printed or run.

create type {schema}.exposure as enum ('internal', 'external');
create type {schema}.job_state as enum ('pending', 'running', 'completed', 'discarded', 'cancelled');
create type {schema}.job_origin as enum ('fanout', 'replay', 'redeliver', 'test', 'enqueue');

-- Limits of an event's texts are domains: a domain's check is compiled once for each connection, a
-- table's once for each statement, which `record` would pay for with every event.
create domain {schema}.event_subject as text
  constraint subject_fits check (octet_length(value) between 1 and 1024);
create domain {schema}.event_key as text
  constraint key_fits check (octet_length(value) between 1 and 1024);
create domain {schema}.event_tenant as text
  constraint tenant_fits check (octet_length(value) <= 255);
create domain {schema}.event_headers as jsonb
  constraint headers_are_an_object check (jsonb_typeof(value) = 'object');

-- What holds for the whole instance. One row, so that `record` reads it with one page.
create table {schema}.setting (
  only_row boolean primary key default true,
  data_bytes_max integer not null default 262144,
  undeclared_types boolean not null default false,
  idempotency_window interval not null default '7 days',
  event_retention interval not null default '7 days',
  completed_retention interval not null default '24 hours',
  discarded_retention interval not null default '7 days',
  constraint there_is_one_row check (only_row),
  constraint data_limit_is_sane check (data_bytes_max between 1024 and 67108864),
  constraint times_are_positive check (
    idempotency_window > interval '0' and event_retention > interval '0'
    and completed_retention > interval '0' and discarded_retention > interval '0')
);
insert into {schema}.setting default values;

-- Declared event types.
create table {schema}.event_type (
  type text collate "C" primary key,
  description text not null default '',
  exposure {schema}.exposure not null default 'internal',
  version integer not null default 1,
  declared_at timestamptz not null default clock_timestamp(),
  constraint type_is_well_formed check (
    type ~ '^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$' and octet_length(type) <= 255),
  constraint version_is_positive check (version >= 1)
);

-- Durable interests. `globs` are in force; they hold `declared_globs` and, during a rolling deploy,
-- what other live sessions still register.
create table {schema}.subscription (
  id integer generated always as identity primary key,
  name text collate "C" not null,
  globs text[] not null,
  declared_globs text[] not null,
  tenant text,
  filter jsonpath,
  sink text not null default 'handler',
  coalesces boolean not null default false,
  queue text not null default 'default',
  max_attempts integer not null default 20,
  backoff jsonb not null,
  timeout_ms bigint not null default 60000,
  priority smallint not null default 2,
  version integer not null default 1,
  created_at timestamptz not null default clock_timestamp(),
  created_routing_version bigint not null,
  paused_at timestamptz,
  deleted_at timestamptz,
  filter_error text,
  filter_error_at timestamptz,
  constraint name_is_well_formed check (name ~ '^[A-Za-z0-9._-]{1,128}$'),
  constraint queue_is_well_formed check (queue ~ '^[A-Za-z0-9._-]{1,128}$'),
  constraint globs_are_few check (cardinality(globs) between 1 and 1000
    and cardinality(declared_globs) between 1 and 100),
  constraint sink_is_known check (
    sink in ('handler', 'webhook', 'kafka', 'nats', 'rabbitmq', 'redis', 'mqtt', 'sql', 'pull')),
  constraint attempts_are_bounded check (max_attempts between 1 and 1000),
  constraint timeout_is_bounded check (timeout_ms between 1 and 86400000),
  constraint priority_is_known check (priority between 1 and 4),
  constraint version_is_positive check (version >= 1),
  constraint filter_error_has_a_time check ((filter_error is null) = (filter_error_at is null))
);
-- A deleted subscription keeps its row for its jobs' sake; its name is free again.
create unique index subscription_name_is_unique on {schema}.subscription (name)
  where deleted_at is null;

-- Which types go to which subscription: globs are expanded when either side changes, so that the
-- relay joins by equality.
create table {schema}.route (
  type text collate "C" not null,
  subscription_id integer not null references {schema}.subscription,
  constraint a_type_routes_once primary key (type, subscription_id)
);
create index route_of_subscription on {schema}.route (subscription_id);

-- Counts every change of types, subscriptions and routes. `batch_max` keeps a fan-out transaction
-- under 10,000 jobs: 10,000 over the largest number of routes of one type.
create table {schema}.routing (
  only_row boolean primary key default true,
  version bigint not null default 1,
  batch_max integer not null default 10000,
  constraint there_is_one_row check (only_row),
  constraint batch_is_positive check (batch_max between 1 and 10000)
);
insert into {schema}.routing default values;

-- Events. Partitioned by the time of insertion, which is also when the event occurred.
create sequence {schema}.event_seq as bigint;
create table {schema}.event (
  seq bigint not null,
  occurred_at timestamptz not null,
  id uuid not null,
  tenant {schema}.event_tenant not null,
  type text collate "C" not null,
  subject {schema}.event_subject not null,
  key {schema}.event_key not null,
  data jsonb,
  body bytea,
  content_type text,
  headers {schema}.event_headers,
  constraint event_is_one primary key (seq, occurred_at),
  -- JSON alone, or bytes with their content type: one function instead of two comparisons, since
  -- `record` pays for the text of a table's checks with every event.
  constraint payload_is_json_or_bytes check (num_nonnulls(data, data, body, content_type) = 2)
) partition by range (occurred_at);
-- Finds an event by the id that callers, consumers and logs know.
create index event_by_id on {schema}.event (id);

-- Ids that callers chose: makes a repeated record a no-op within `idempotency_window`.
create table {schema}.record_key (
  id uuid primary key,
  content_hash bytea not null,
  seq bigint not null,
  occurred_at timestamptz not null,
  constraint hash_is_sha256 check (octet_length(content_hash) = 32)
);
-- Finds the keys that are older than the window.
create index record_key_age on {schema}.record_key (occurred_at);

-- Events whose fan-out is still to be done. A row is inserted and deleted, never updated.
create table {schema}.owed (
  seq bigint primary key,
  occurred_at timestamptz not null
) with (autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 20000,
        autovacuum_vacuum_cost_delay = 0);

-- Owed events whose fan-out failed, apart from `owed` so that they never stand in the way.
-- The attempt is committed before each try; a poisoned event waits for a person.
create table {schema}.fanout_failure (
  seq bigint primary key,
  occurred_at timestamptz not null,
  tenant text not null,
  key text not null,
  attempts integer not null default 0,
  retry_at timestamptz,
  poisoned_at timestamptz,
  last_error text,
  constraint waits_or_is_poisoned check ((retry_at is null) <> (poisoned_at is null)),
  constraint attempts_are_counted check (attempts >= 0),
  constraint poison_has_a_reason check (poisoned_at is null or last_error is not null)
);
-- The failures whose turn it is.
create index fanout_failure_due on {schema}.fanout_failure (retry_at) where poisoned_at is null;

-- What became of each event: when it was fanned out, under which routing, and which job each
-- subscription got. `coalesced_into` names, per job, the event whose job stands for this one.
create table {schema}.fanout (
  seq bigint not null,
  occurred_at timestamptz not null,
  fanned_out_at timestamptz not null,
  routing_version bigint not null,
  skipped boolean not null default false,
  subscription_ids integer[] not null,
  job_ids bigint[] not null,
  coalesced_into bigint[],
  constraint an_event_is_fanned_out_once primary key (seq, occurred_at),
  constraint each_subscription_got_a_job check (cardinality(subscription_ids) = cardinality(job_ids)
    and (coalesced_into is null or cardinality(coalesced_into) = cardinality(job_ids))),
  constraint a_skipped_event_has_no_jobs check (not skipped or cardinality(job_ids) = 0)
) partition by range (occurred_at);

-- Processes that run an engine. A session is one run of one process: a random id, so that a host
-- name or pid used again means nothing.
create table {schema}.session (
  id uuid primary key,
  name text not null,
  version text not null,
  runs_relay boolean not null,
  started_at timestamptz not null,
  expires_at timestamptz not null,
  ended_at timestamptz,
  end_reason text,
  constraint an_end_has_a_reason check ((ended_at is null) = (end_reason is null)),
  constraint end_reason_is_known check (end_reason in ('stopped', 'lost'))
);
-- The live sessions, few whatever the history.
create index session_live on {schema}.session (expires_at) where ended_at is null;

-- What each live session registered a handler for, and with which globs.
create table {schema}.registration (
  session_id uuid not null references {schema}.session on delete cascade,
  subscription_id integer not null references {schema}.subscription,
  globs text[] not null,
  constraint a_session_registers_once primary key (session_id, subscription_id)
);

-- One row for each batch of jobs that a session claimed. The token is the fence: it only grows.
create table {schema}.lease (
  token bigint generated always as identity primary key,
  session_id uuid not null references {schema}.session,
  job_ids bigint[] not null,
  claimed_at timestamptz not null,
  constraint a_lease_holds_jobs check (cardinality(job_ids) >= 1)
) with (autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 5000);
create index lease_of_session on {schema}.lease (session_id);

-- Jobs that are not finished. Half of each page stays free and no index mentions the state or the
-- lease, so that a claim is a heap-only update.
create sequence {schema}.job_id_seq as bigint;
create table {schema}.job (
  id bigint primary key default nextval('{schema_in_literal}.job_id_seq'),
  event_seq bigint,
  event_occurred_at timestamptz,
  due_at timestamptz not null,
  lease_token bigint,
  started_at timestamptz,
  created_at timestamptz not null,
  cancel_requested_at timestamptz,
  subscription_id integer not null,
  attempt integer not null default 0,
  extra_attempts integer not null default 0,
  state {schema}.job_state not null default 'pending',
  origin {schema}.job_origin not null,
  priority smallint not null,
  tenant text not null,
  last_error text,
  constraint an_unfinished_job_is_pending_or_running check (state in ('pending', 'running')),
  constraint a_lease_iff_running check ((state = 'running') = (lease_token is not null)),
  constraint a_start_iff_running check ((state = 'running') = (started_at is not null)),
  constraint only_a_running_job_is_asked_to_stop check (
    cancel_requested_at is null or state = 'running'),
  constraint attempts_are_counted check (attempt >= 0 and extra_attempts >= 0),
  constraint a_running_job_has_an_attempt check (state <> 'running' or attempt >= 1),
  constraint priority_is_known check (priority between 1 and 4),
  constraint an_event_is_named_whole check ((event_seq is null) = (event_occurred_at is null)),
  constraint a_delivery_has_an_event check (origin = 'enqueue' or event_seq is not null)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 20000,
        autovacuum_vacuum_cost_delay = 0);
alter sequence {schema}.job_id_seq owned by {schema}.job.id;
-- The next due job of a subscription at each priority.
create index job_due on {schema}.job (subscription_id, priority, due_at, id);

-- Finished jobs. Two retentions, so two branches: what completed, and what a person may want back.
create table {schema}.job_history (
  id bigint not null,
  event_seq bigint,
  event_occurred_at timestamptz,
  finished_at timestamptz not null,
  started_at timestamptz,
  created_at timestamptz not null,
  session_id uuid,
  subscription_id integer not null,
  attempt integer not null,
  extra_attempts integer not null,
  state {schema}.job_state not null,
  origin {schema}.job_origin not null,
  priority smallint not null,
  tenant text not null,
  last_error text,
  output jsonb,
  constraint a_finished_job_is_one primary key (id, state, finished_at),
  constraint history_holds_final_states check (state in ('completed', 'discarded', 'cancelled')),
  constraint a_discarded_job_has_a_reason check (state <> 'discarded' or last_error is not null),
  constraint a_completed_job_was_started check (state <> 'completed' or started_at is not null),
  constraint only_completed_jobs_have_output check (output is null or state = 'completed')
) partition by list (state);
create table {schema}.job_completed partition of {schema}.job_history for values in ('completed')
  partition by range (finished_at);
create table {schema}.job_discarded partition of {schema}.job_history
  for values in ('discarded', 'cancelled') partition by range (finished_at);

-- Attempts that did not complete their job; the last attempt of a finished job is its history row.
create table {schema}.job_attempt (
  job_id bigint not null,
  attempt integer not null,
  started_at timestamptz not null,
  finished_at timestamptz not null,
  session_id uuid,
  outcome text not null,
  error text,
  constraint outcome_is_known check (
    outcome in ('retry', 'snoozed', 'discarded', 'cancelled', 'released', 'lost')),
  constraint a_failed_attempt_has_an_error check (
    outcome not in ('retry', 'discarded', 'lost') or error is not null)
) partition by range (finished_at);
create index job_attempt_of_job on {schema}.job_attempt (job_id);

-- The default partitions: the net under a missing partition, and the keep of events that are still
-- needed when their day is dropped.
create table {schema}.event_default partition of {schema}.event default;
create table {schema}.fanout_default partition of {schema}.fanout default;
create table {schema}.job_completed_default partition of {schema}.job_completed default;
create table {schema}.job_discarded_default partition of {schema}.job_discarded default;
create table {schema}.job_attempt_default partition of {schema}.job_attempt default;
