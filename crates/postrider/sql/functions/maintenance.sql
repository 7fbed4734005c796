-- Partitions: made ahead, dropped when their time is over. Definer functions, so that the role of
-- the engine needs neither ownership nor the right to create anything.

-- Makes the daily partition of `parent` that holds `day`, unless it exists. Attaching needs no lock
-- that stops writers of other partitions. Rows that fell into the net meanwhile move into it; only
-- then readers must wait too: a statement that was planned before the partition was there would look
-- for the moved rows in the net alone, and find them in neither.
create or replace function {schema}.make_partition(parent text, column_name text, day date)
  returns boolean language plpgsql security definer
  set search_path = pg_catalog, pg_temp set timezone = 'UTC' set lock_timeout = '50ms' as $$
declare
  child text := format('%s_%s', parent, to_char(day, 'YYYYMMDD'));
  lower_bound timestamptz := day::timestamptz;
  upper_bound timestamptz := (day + 1)::timestamptz;
  in_range text := format('%I >= %L and %I < %L', column_name, lower_bound, column_name, upper_bound);
  look text := format('select exists (select from %s.%I where %s)',
    {schema_literal}, parent || '_default', in_range);
  rows_move boolean;
  rows_came boolean;
begin
  if to_regclass(format('%s.%I', {schema_literal}, child)) is not null then
    return false;
  end if;
  execute format('create table %1$s.%2$I (like %1$s.%3$I including defaults including constraints)',
    {schema_literal}, child, parent);
  -- Of two processes one waits here, before either holds what the other needs.
  execute format('lock table %s.%I in share update exclusive mode',
    {schema_literal}, parent || '_default');
  execute look into rows_move;
  if rows_move then
    execute format('lock table only %s.%I in access exclusive mode', {schema_literal}, parent);
  end if;
  execute format('lock table %s.%I in access exclusive mode', {schema_literal}, parent || '_default');
  execute look into rows_came;
  if rows_came and not rows_move then
    raise lock_not_available using message = 'rows fell into the net meanwhile: come again';
  end if;
  execute format('with moved as (delete from %1$s.%2$I where %3$s returning *)
                  insert into %1$s.%4$I select * from moved',
    {schema_literal}, parent || '_default', in_range, child);
  execute format('alter table %1$s.%2$I attach partition %1$s.%3$I for values from (%4$L) to (%5$L)',
    {schema_literal}, parent, child, lower_bound, upper_bound);
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
-- many it made. A lock that is not had at once is left for the next time; a partition that another
-- process makes meanwhile is there.
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
    exception
      when lock_not_available or deadlock_detected or duplicate_table or duplicate_object
        or unique_violation then null;
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
-- for the day; writers wait only for what happens after the tables are locked, which reads nothing
-- but the day's range of an index, and this waits 50 ms at most for them. Pinned events move into
-- the default partitions; more than `pinned_max` of them keep the whole day. Answers 'dropped',
-- 'pinned', 'busy' (a lock was not had: come again), or 'gone' (somebody else was faster).
create or replace function {schema}.drop_event_day(day date, pinned_max integer)
  returns table (result text, pinned bigint) language plpgsql security definer
  set search_path = pg_catalog, pg_temp set timezone = 'UTC' set lock_timeout = '50ms' as $$
declare
  events regclass;
  fanouts regclass;
  lower_bound timestamptz := day::timestamptz;
  upper_bound timestamptz := (day + 1)::timestamptz;
  first_seq bigint;
  last_seq bigint;
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
    create temporary table postrider_pinned on commit drop as
      select * from {schema}.pinned_events(lower_bound, upper_bound);
    -- The parents alone: every writer holds them, and a partition that somebody vacuums or
    -- analyses is none of this day's business.
    lock table only {schema}.event, only {schema}.fanout in access exclusive mode;
  exception when lock_not_available then
    return query select 'busy', held;
    return;
  end;
  events := to_regclass(format('%s.%I', {schema_literal}, 'event_' || to_char(day, 'YYYYMMDD')));
  fanouts := to_regclass(format('%s.%I', {schema_literal}, 'fanout_' || to_char(day, 'YYYYMMDD')));
  if events is not null then
    -- What was still being recorded at the look is committed now, or was rolled back.
    execute format('select min(seq), max(seq) from %s', events) into first_seq, last_seq;
    insert into pg_temp.postrider_pinned
      (select o.seq, o.occurred_at from {schema}.owed o where o.seq between first_seq and last_seq
         and o.occurred_at >= lower_bound and o.occurred_at < upper_bound
       union
       select f.seq, f.occurred_at from {schema}.fanout_failure f
         where f.seq between first_seq and last_seq
         and f.occurred_at >= lower_bound and f.occurred_at < upper_bound)
      except select p.seq, p.occurred_at from pg_temp.postrider_pinned p;
    select count(*) into held from pg_temp.postrider_pinned;
    if held > pinned_max then
      drop table pg_temp.postrider_pinned;
      return query select 'pinned', held;
      return;
    end if;
    execute format('create temporary table postrider_kept on commit drop as
      select e.* from %s e join pg_temp.postrider_pinned p using (seq, occurred_at)', events);
    execute format('drop table %s', events);
    insert into {schema}.event select * from pg_temp.postrider_kept;
    drop table pg_temp.postrider_kept;
  end if;
  if fanouts is not null then
    execute format('create temporary table postrider_kept on commit drop as
      select f.* from %s f join pg_temp.postrider_pinned p using (seq, occurred_at)', fanouts);
    execute format('drop table %s', fanouts);
    insert into {schema}.fanout select * from pg_temp.postrider_kept;
    drop table pg_temp.postrider_kept;
  elsif events is not null then
    -- The day's fan-outs fell into the net.
    delete from {schema}.fanout_default f
    where f.occurred_at >= lower_bound and f.occurred_at < upper_bound
      and not exists (select from pg_temp.postrider_pinned p where p.seq = f.seq);
  end if;
  drop table pg_temp.postrider_pinned;
  return query select case when coalesce(events, fanouts) is null then 'gone' else 'dropped' end, held;
end
$$;

-- Drops one day of a history table; writers are waited for 50 ms at most. Answers 'dropped', also
-- when somebody else was faster, or 'busy'.
create or replace function {schema}.drop_history_day(parent text, day date) returns text
  language plpgsql security definer
  set search_path = pg_catalog, pg_temp set lock_timeout = '50ms' as $$
begin
  if parent not in ('job_completed', 'job_discarded', 'job_attempt') then
    perform {schema}.refuse('PR002', 'parent', format('parent: %s has no history', parent));
  end if;
  execute format('drop table if exists %s.%I', {schema_literal}, parent || '_' || to_char(day, 'YYYYMMDD'));
  return 'dropped';
exception when lock_not_available then
  return 'busy';
end
$$;
