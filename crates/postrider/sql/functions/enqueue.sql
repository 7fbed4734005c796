-- `enqueue`: writes a job in the caller's transaction.
--
-- `enqueue` and `enqueue_many` are definer functions; what they call is granted to nobody.

create or replace function {schema}.nearest_kinds(wanted text) returns text
  language sql stable as $$
  -- Only errors call this: shares of pairs of letters, as for types.
  select string_agg(near.name, ', ' order by near.shared desc, near.name)
  from (
    select s.name, count(*)::float / greatest(length(s.name), length(wanted)) as shared
    from {schema}.subscription s
    join lateral (
      select distinct lower(substr(s.name, i, 2)) as piece
      from generate_series(1, greatest(length(s.name) - 1, 1)) i
    ) theirs on true
    where s.source = 'enqueue' and s.deleted_at is null and theirs.piece in (
      select lower(substr(wanted, i, 2)) from generate_series(1, greatest(length(wanted) - 1, 1)) i)
    group by s.name
    having count(*)::float / greatest(length(s.name), length(wanted)) > 0.3
    order by shared desc, s.name
    limit 3
  ) near
$$;

-- Refuses a kind that nobody declared.
create or replace function {schema}.refuse_kind(kind text, batch_position integer) returns void
  language plpgsql as $$
declare
  nearest text;
begin
  perform {schema}.check_text('kind', kind, 128, batch_position);
  if exists (select from {schema}.subscription s where s.name = $1 and s.deleted_at is null) then
    perform {schema}.refuse('PR007', 'kind', format('kind: %s is a subscription to events', $1),
      'Jobs of a subscription are made by the relay; declare a kind of another name.',
      batch_position);
  end if;
  nearest := {schema}.nearest_kinds(kind);
  perform {schema}.refuse('PR007', 'kind', format('kind: %s is not declared', kind),
    case when nearest is not null then 'Declared and alike: ' || nearest || '.'
         else 'Kinds are declared by the programs that handle them, and by `postrider jobs declare`.'
    end, batch_position);
end
$$;

-- Refuses a time span that is negative or longer than a year.
create or replace function {schema}.check_span(
  field text, span interval, batch_position integer) returns void
  language plpgsql as $$
begin
  if span < interval '0' or span > interval '366 days' then
    perform {schema}.refuse('PR002', field, format('%s: %s is out of range, 0 to a year', field, span),
      null, batch_position);
  end if;
end
$$;

-- The hash under which a job is unique: over kind, tenant and the chosen arguments.
create or replace function {schema}.unique_hash(
  kind_id integer, tenant text, arguments jsonb, unique_by text[], batch_position integer)
  returns bytea language plpgsql as $$
declare
  chosen jsonb;
  odd text;
begin
  if array_position(unique_by, null) is not null or cardinality(unique_by) > 20 then
    perform {schema}.refuse('PR002', 'unique_by', 'unique_by: at most 20 names of arguments are possible',
      null, batch_position);
  end if;
  if unique_by = '{*}' then
    chosen := arguments;
  else
    select n into odd from unnest(unique_by) n
      where jsonb_typeof(arguments) <> 'object' or not arguments ? n limit 1;
    if odd is not null then
      perform {schema}.refuse('PR002', 'unique_by',
        format('unique_by: the arguments have no %s', to_json(odd)),
        'Name arguments of the top level; {*} stands for all, {} for none: one of the kind.',
        batch_position);
    end if;
    select coalesce(jsonb_object_agg(n, arguments -> n), '{}') into chosen
      from (select distinct n from unnest(unique_by) n) names;
  end if;
  return sha256(convert_to(
    jsonb_build_array(kind_id, tenant, unique_by = '{*}', chosen)::text, 'UTF8'));
end
$$;

-- Takes the unique key for a new job. Returns the job that stands for it already, or null when the key
-- is the new job's. `states` are those in which a job stands; a job that waits is locked, so that it
-- runs after this transaction and sees what it did.
create or replace function {schema}.claim_unique_key(
  hash bytea, new_job bigint, states text[], unique_for interval, at timestamptz) returns bigint
  language plpgsql as $$
declare
  holder {schema}.unique_key%rowtype;
  found_state text;
  was_locked boolean;
begin
  loop
    was_locked := 'running' = any(states);
    insert into {schema}.unique_key as u (hash, job_id, enqueued_at, looked_at)
      values ($1, $2, $5, $5) on conflict do nothing;
    if found then
      return null;
    end if;
    select u.* into holder from {schema}.unique_key u where u.hash = $1;
    -- It may have been forgotten between the two statements: then the key is free again.
    continue when not found;
    if $4 is null or holder.enqueued_at > $5 - $4 then
      if not 'running' = any(states) then
        perform from {schema}.job j where j.id = holder.job_id and j.state = 'pending' for share;
        was_locked := found;
      end if;
      select coalesce(
          (select j.state::text from {schema}.job j where j.id = holder.job_id),
          (select h.state::text from {schema}.job_history h where h.id = holder.job_id limit 1))
        into found_state;
      -- It was put back after we looked for it: look again, and lock it.
      continue when found_state = 'pending' and not was_locked;
      if found_state = any(states) then
        return holder.job_id;
      end if;
    end if;
    update {schema}.unique_key u
      set job_id = $2, enqueued_at = $5, looked_at = $5
      where u.hash = $1 and u.job_id = holder.job_id;
    if found then
      return null;
    end if;
  end loop;
end
$$;

-- The contract: writes a job of a declared kind, returns its id and what happened: `inserted`,
-- `exists` (the job that is there stands for this one too) or `replaced` (it has these arguments now).
-- `batch_position` is for `enqueue_many` alone.
create or replace function {schema}.enqueue(
  kind text, arguments jsonb default '{}', run_at timestamptz default null,
  delay interval default null, priority text default null, max_attempts integer default null,
  tenant text default '', key text default null, unique_by text[] default null,
  unique_states text[] default '{pending}', unique_for interval default null,
  debounce interval default null, debounce_max interval default null,
  batch_position integer default null, out job_id bigint, out result text)
  language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  found_kind record;
  standing bigint;
  at timestamptz := clock_timestamp();
  due timestamptz;
begin
  select s.id, s.priority, s.max_attempts into found_kind from {schema}.subscription s
    where s.name = $1 and s.source = 'enqueue' and s.deleted_at is null;
  if not found then
    perform {schema}.refuse_kind($1, $14);
  end if;
  if $2 is null then
    perform {schema}.refuse('PR002', 'arguments', 'arguments: are missing',
      'A job without arguments has {}.', $14);
  elsif octet_length($2::text) > 1024
    and octet_length($2::text) > (select s.data_bytes_max from {schema}.setting s) then
    perform {schema}.refuse('PR003', 'arguments', format('arguments: are %s bytes long, at most %s fit',
      octet_length($2::text), (select s.data_bytes_max from {schema}.setting s)),
      'Put large content elsewhere and enqueue where it is.', $14);
  end if;
  if $7 is null or $7 <> '' then
    perform {schema}.check_text('tenant', $7, 255, $14);
  end if;
  if $8 is not null then
    perform {schema}.check_text('key', $8, 1024, $14);
  end if;
  if num_nonnulls($3, $4, $12) > 1 then
    perform {schema}.refuse('PR002', 'run_at', 'run_at: only one of run_at, delay and debounce is possible',
      null, $14);
  end if;
  perform {schema}.check_span('delay', $4, $14);
  perform {schema}.check_span('unique_for', $11, $14);
  perform {schema}.check_span('debounce', $12, $14);
  perform {schema}.check_span('debounce_max', $13, $14);
  due := coalesce($3, at + coalesce($4, $12, interval '0'));
  if not due between at - interval '100 years' and at + interval '100 years' then
    perform {schema}.refuse('PR002', 'run_at', 'run_at: is more than a hundred years away', null, $14);
  end if;
  if $5 is not null and $5 not in ('high', 'normal', 'low', 'bulk') then
    perform {schema}.refuse('PR002', 'priority',
      format('priority: %s is none of high, normal, low, bulk', to_json($5)), null, $14);
  end if;
  if $6 not between 1 and 1000 then
    perform {schema}.refuse('PR002', 'max_attempts', 'max_attempts: is out of range, 1 to 1000', null, $14);
  end if;
  if $9 is null and num_nonnulls($11, $12, $13) > 0 or $12 is null and $13 is not null then
    perform {schema}.refuse('PR002', 'unique_by',
      'unique_by: is missing beside unique_for or debounce, or debounce beside debounce_max', null, $14);
  end if;
  if $9 is not null and ($10 is null or array_position($10, null) is not null or not $10 <@
      '{pending,running,completed,discarded,cancelled}'::text[] or cardinality($10) = 0) then
    perform {schema}.refuse('PR002', 'unique_states',
      'unique_states: are some of pending, running, completed, discarded, cancelled', null, $14);
  end if;

  enqueue.job_id := nextval('{schema_in_literal}.job_id_seq');
  enqueue.result := 'inserted';
  if $9 is not null then
    standing := {schema}.claim_unique_key({schema}.unique_hash(found_kind.id, $7, $2, $9, $14),
      enqueue.job_id, $10, $11, at);
  end if;
  if standing is not null then
    enqueue.job_id := standing;
    enqueue.result := 'exists';
    if $12 is null then
      return;
    end if;
    -- Debounced: the latest arguments, and a new wait, though not beyond the longest one.
    update {schema}.job j
      set arguments = $2, due_at = least(due, greatest(at, j.created_at + $13))
      where j.id = standing and j.state = 'pending';
    if found then
      enqueue.result := 'replaced';
    end if;
    return;
  end if;
  insert into {schema}.job (id, due_at, created_at, subscription_id, origin, priority, tenant,
      extra_attempts, arguments, key)
    values (enqueue.job_id, due, at, found_kind.id, 'enqueue',
      coalesce(array_position('{high,normal,low,bulk}'::text[], $5)::smallint, found_kind.priority),
      $7, coalesce($6 - found_kind.max_attempts, 0), $2, $8);
  -- The doorbell, as in `record`: silent unless a relay sleeps. What is due later is found by looking.
  if due <= at and current_setting('postrider.wake', true) is distinct from 'off'
     and not pg_try_advisory_xact_lock_shared({bell_key})
     and pg_notification_queue_usage() < 0.5 then
    perform pg_notify({channel}, 'enqueued');
  end if;
end
$$;

-- Refuses an element of a batch whose fields could not be taken as they are.
create or replace function {schema}.check_job(job jsonb, batch_position integer) returns void
  language plpgsql as $$
declare
  odd text;
begin
  if jsonb_typeof(job) <> 'object' then
    perform {schema}.refuse('PR002', 'jobs',
      format('is a JSON %s, an object is needed', jsonb_typeof(job)), null, batch_position);
  end if;
  select string_agg(k, ', ' order by k) into odd from jsonb_object_keys(job) k
    where k not in ('kind', 'arguments', 'run_at', 'delay', 'priority', 'max_attempts', 'tenant', 'key',
      'unique_by', 'unique_states', 'unique_for', 'debounce', 'debounce_max');
  if odd is not null then
    perform {schema}.refuse('PR002', 'jobs', 'unknown field: ' || odd, null, batch_position);
  end if;
  select f.key into odd from jsonb_each(job) f
    where f.key <> 'arguments' and jsonb_typeof(f.value) not in ('null', case f.key
      when 'max_attempts' then 'number' when 'unique_by' then 'array' when 'unique_states' then 'array'
      else 'string' end) limit 1;
  if odd is not null then
    perform {schema}.refuse('PR002', odd,
      format('%s: is a JSON %s', odd, jsonb_typeof(job -> odd)), null, batch_position);
  end if;
end
$$;

-- The texts of a JSON array, or null for null.
create or replace function {schema}.texts_of(list jsonb) returns text[]
  language sql immutable as $$
  select case when jsonb_typeof(list) = 'array' then array(select jsonb_array_elements_text(list)) end
$$;

-- Enqueues an array of objects with the fields of `enqueue`, in order; returns a row for each, in the
-- same order. All or none.
create or replace function {schema}.enqueue_many(jobs jsonb)
  returns table (batch_place integer, job_id bigint, result text)
  language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  job jsonb;
begin
  if jsonb_typeof(jobs) is distinct from 'array' then
    perform {schema}.refuse('PR002', 'jobs', 'jobs: an array of objects is needed');
  end if;
  if jsonb_array_length(jobs) > 10000 then
    perform {schema}.refuse('PR002', 'jobs',
      format('jobs: %s in one batch, at most 10000 fit', jsonb_array_length(jobs)));
  end if;
  batch_place := 0;
  for job in select value from jsonb_array_elements(jobs) loop
    batch_place := batch_place + 1;
    perform {schema}.check_job(job, -batch_place);
    select e.job_id, e.result into enqueue_many.job_id, enqueue_many.result
    from {schema}.enqueue(job ->> 'kind', coalesce(job -> 'arguments', '{}'),
      (job ->> 'run_at')::timestamptz, (job ->> 'delay')::interval, job ->> 'priority',
      (job ->> 'max_attempts')::integer, coalesce(job ->> 'tenant', ''), job ->> 'key',
      {schema}.texts_of(job -> 'unique_by'),
      coalesce({schema}.texts_of(job -> 'unique_states'), '{pending}'),
      (job ->> 'unique_for')::interval, (job ->> 'debounce')::interval,
      (job ->> 'debounce_max')::interval, -batch_place) e;
    return next;
  end loop;
end
$$;
