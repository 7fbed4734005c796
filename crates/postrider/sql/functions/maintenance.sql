-- Partitions: made ahead, dropped when their time is over. Definer functions, so that the role of
-- the engine needs neither ownership nor the right to create anything.

-- Makes the daily partition of `parent` that holds `day`, unless it exists. Attaching needs no lock
-- that stops writers of other partitions. Rows that fell into the net meanwhile move into it.
create or replace function {schema}.make_partition(parent text, column_name text, day date)
  returns boolean language plpgsql security definer
  set search_path = pg_catalog, pg_temp set timezone = 'UTC' set lock_timeout = '50ms' as $$
declare
  child text := format('%s_%s', parent, to_char(day, 'YYYYMMDD'));
  lower_bound timestamptz := day::timestamptz;
  upper_bound timestamptz := (day + 1)::timestamptz;
  in_range text := format('%I >= %L and %I < %L', column_name, lower_bound, column_name, upper_bound);
begin
  if to_regclass(format('%s.%I', {schema_literal}, child)) is not null then
    return false;
  end if;
  execute format('create table {schema}.%I (like {schema}.%I including defaults including constraints)',
    child, parent);
  execute format('lock table {schema}.%I in access exclusive mode', parent || '_default');
  execute format('with moved as (delete from {schema}.%I where %s returning *)
                  insert into {schema}.%I select * from moved', parent || '_default', in_range, child);
  execute format('alter table {schema}.%I attach partition {schema}.%I for values from (%L) to (%L)',
    parent, child, lower_bound, upper_bound);
  return true;
end
$$;

-- The daily partitions of `parent` and the day each holds, oldest first.
create or replace function {schema}.partitions_of(parent text)
  returns table (name text, day date) language sql stable
  set search_path = pg_catalog, pg_temp as $$
  select c.relname::text, to_date(right(c.relname, 8), 'YYYYMMDD')
  from pg_inherits i join pg_class c on c.oid = i.inhrelid
  where i.inhparent = to_regclass(format('%s.%I', {schema_literal}, parent))
    and c.relname ~ '_[0-9]{8}$'
  order by 2
$$;

-- Makes the partitions of today and of `days_ahead` days for every partitioned table; returns how
-- many it made. A lock that is not had at once is left for the next time.
create or replace function {schema}.make_partitions(at timestamptz, days_ahead integer)
  returns integer language plpgsql security definer
  set search_path = pg_catalog, pg_temp set timezone = 'UTC' as $$
declare
  made integer := 0;
  part record;
begin
  for part in
    select p.parent, p.column_name, (at::date + n) as day
    from (values ('event', 'occurred_at'), ('fanout', 'occurred_at'), ('job_completed', 'finished_at'),
                 ('job_discarded', 'finished_at'), ('job_attempt', 'finished_at')) p(parent, column_name),
         generate_series(0, days_ahead) n
    order by 3
  loop
    begin
      made := made + {schema}.make_partition(part.parent, part.column_name, part.day)::integer;
    exception when lock_not_available then null;
    end;
  end loop;
  return made;
end
$$;

-- The events of a day that must outlive it: owed, failing, poisoned, or with an unfinished job.
create or replace function {schema}.pinned_events(lower_bound timestamptz, upper_bound timestamptz)
  returns table (seq bigint, occurred_at timestamptz) language sql stable
  set search_path = pg_catalog, pg_temp as $$
  select o.seq, o.occurred_at from {schema}.owed o
    where o.occurred_at >= lower_bound and o.occurred_at < upper_bound
  union
  select f.seq, f.occurred_at from {schema}.fanout_failure f
    where f.occurred_at >= lower_bound and f.occurred_at < upper_bound
  union
  select j.event_seq, j.event_occurred_at from {schema}.job j
    where j.event_occurred_at >= lower_bound and j.event_occurred_at < upper_bound
$$;

-- Drops one day of events with what became of them. Fan-outs wait meanwhile, so no job can appear
-- for the day; writers are waited for 50 ms at most. Pinned events move into the default
-- partitions; more than `pinned_max` of them keep the whole day.
create or replace function {schema}.drop_event_day(day date, pinned_max integer)
  returns table (result text, pinned bigint) language plpgsql security definer
  set search_path = pg_catalog, pg_temp set timezone = 'UTC' set lock_timeout = '50ms' as $$
declare
  child text := to_char(day, 'YYYYMMDD');
  lower_bound timestamptz := day::timestamptz;
  upper_bound timestamptz := (day + 1)::timestamptz;
  held bigint;
begin
  -- A look before any lock is taken: a day that cannot go costs nobody anything.
  select count(*) into held from {schema}.pinned_events(lower_bound, upper_bound);
  if held > pinned_max then
    return query select 'pinned', held;
    return;
  end if;
  begin
    perform pg_advisory_xact_lock({routing_key});
    execute format('lock table {schema}.event, {schema}.fanout in access exclusive mode');
  exception when lock_not_available then
    return query select 'busy', held;
    return;
  end;
  create temporary table postrider_pinned on commit drop as
    select * from {schema}.pinned_events(lower_bound, upper_bound);
  select count(*) into held from pg_temp.postrider_pinned;
  if held > pinned_max then
    drop table pg_temp.postrider_pinned;
    return query select 'pinned', held;
    return;
  end if;
  execute format('create temporary table postrider_kept on commit drop as
    select e.* from {schema}.%I e join pg_temp.postrider_pinned p using (seq, occurred_at)', 'event_' || child);
  -- A day whose fan-outs fell into the net has no partition of them.
  execute format('create temporary table postrider_kept_fanout on commit drop as
    select f.* from {schema}.%I f join pg_temp.postrider_pinned p using (seq, occurred_at)',
    case when to_regclass(format('%s.%I', {schema_literal}, 'fanout_' || child)) is null
         then 'fanout_default' else 'fanout_' || child end);
  delete from {schema}.fanout_default f where f.occurred_at >= lower_bound and f.occurred_at < upper_bound;
  execute format('drop table {schema}.%I', 'event_' || child);
  execute format('drop table if exists {schema}.%I', 'fanout_' || child);
  insert into {schema}.event select * from pg_temp.postrider_kept;
  insert into {schema}.fanout select * from pg_temp.postrider_kept_fanout;
  drop table pg_temp.postrider_pinned, pg_temp.postrider_kept, pg_temp.postrider_kept_fanout;
  return query select 'dropped', held;
end
$$;

-- Drops one day of a history table; writers are waited for 50 ms at most.
create or replace function {schema}.drop_history_day(parent text, day date) returns text
  language plpgsql security definer
  set search_path = pg_catalog, pg_temp set lock_timeout = '50ms' as $$
begin
  if parent not in ('job_completed', 'job_discarded', 'job_attempt') then
    perform {schema}.refuse('PR002', 'parent', format('parent: %s has no history', parent));
  end if;
  execute format('drop table {schema}.%I', parent || '_' || to_char(day, 'YYYYMMDD'));
  return 'dropped';
exception when lock_not_available then
  return 'busy';
end
$$;
