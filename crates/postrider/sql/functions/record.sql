-- `record`: writes an event and the mark that it is owed, in the caller's transaction.
--
-- Who may call it fixes the search_path: `record` and `record_many` are definer functions. What they
-- call is granted to nobody and runs under theirs, so it does not pay for setting it again.

create or replace function {schema}.nearest_types(wanted text) returns text
  language sql stable as $$
  -- Only errors call this: shares of pairs of letters, so that two that changed places cost little.
  select string_agg(near.type, ', ' order by near.shared desc, near.type)
  from (
    select t.type, count(*)::float / greatest(length(t.type), length(wanted)) as shared
    from {schema}.event_type t
    join lateral (
      select distinct lower(substr(t.type, i, 2)) as piece from generate_series(1, greatest(length(t.type) - 1, 1)) i
    ) theirs on true
    where theirs.piece in (
      select lower(substr(wanted, i, 2)) from generate_series(1, greatest(length(wanted) - 1, 1)) i)
    group by t.type
    having count(*)::float / greatest(length(t.type), length(wanted)) > 0.3
    order by shared desc, t.type
    limit 3
  ) near
$$;

-- Raises an error of Postrider's own: PR001 undeclared type, PR002 invalid input, PR003 too large,
-- PR004 id taken, PR005 stale lease, PR006 broken invariant, PR007 undeclared kind. The code is repeated as the name of a
-- constraint, because diesel passes that on and no SQLSTATE.
create or replace function {schema}.refuse(
  code text, field text, problem text, hint text default null, batch_position integer default null)
  returns void language plpgsql as $$
begin
  -- The places of jobs are counted below zero.
  problem := coalesce(case when batch_position < 0 then 'job ' || -batch_position
    else 'event ' || batch_position end || ' of the batch: ', '') || problem;
  if hint is null then
    raise exception using errcode = code, message = problem, column = field, constraint = code;
  end if;
  raise exception using errcode = code, message = problem, column = field, constraint = code,
    hint = hint;
end
$$;

-- Refuses headers that are no object of texts, too many, or reserved.
create or replace function {schema}.check_headers(headers jsonb, batch_position integer) returns void
  language plpgsql as $$
declare
  header record;
begin
  if jsonb_typeof(headers) <> 'object' then
    perform {schema}.refuse('PR002', 'headers',
      format('headers: is a JSON %s, an object of texts is needed', jsonb_typeof(headers)),
      null, batch_position);
  end if;
  if octet_length(headers::text) > 8192 then
    perform {schema}.refuse('PR002', 'headers',
      format('headers: take %s bytes together, at most 8192 fit', octet_length(headers::text)),
      null, batch_position);
  end if;
  for header in select h.key as name, h.value from jsonb_each(headers) h loop
    if header.name !~ '^[A-Za-z0-9!#$%&''*+.^_`|~-]{1,128}$' then
      perform {schema}.refuse('PR002', 'headers',
        format('headers: %s is no header name', to_json(header.name)), null, batch_position);
    end if;
    if lower(header.name) = 'content-type' or lower(header.name) ~ '^(postrider-|webhook-|ce-)' then
      perform {schema}.refuse('PR002', 'headers', format('headers: %s is reserved', header.name),
        'Names that begin with postrider-, webhook- or ce-, and content-type, are set by Postrider.',
        batch_position);
    end if;
    if jsonb_typeof(header.value) <> 'string'
       or (header.value #>> '{}') ~ '[\u0001-\u001f\u007f-\u009f]' then
      perform {schema}.refuse('PR002', 'headers',
        format('headers: the value of %s is no text without control characters', header.name),
        null, batch_position);
    end if;
  end loop;
end
$$;

create or replace function {schema}.check_text(
  field text, value text, bytes_max integer, batch_position integer) returns void
  language plpgsql as $$
begin
  if value is null or value = '' and field <> 'tenant' then
    perform {schema}.refuse('PR002', field, field || ': is empty', null, batch_position);
  elsif octet_length(value) > bytes_max then
    perform {schema}.refuse('PR002', field,
      format('%s: is %s bytes long, at most %s fit', field, octet_length(value), bytes_max),
      null, batch_position);
  elsif value ~ '[\u0001-\u001f\u007f-\u009f]' then
    perform {schema}.refuse('PR002', field,
      field || ': holds a control character (line break, tab or such)', null, batch_position);
  end if;
end
$$;

-- Refuses a payload of bytes without a media type, or one that comes beside JSON.
create or replace function {schema}.check_bytes(
  data jsonb, body bytea, content_type text, batch_position integer) returns void
  language plpgsql as $$
begin
  if $2 is null then
    perform {schema}.refuse('PR002', 'body', 'body: is missing beside content_type', null, $4);
  elsif $1 is distinct from '{}' then
    perform {schema}.refuse('PR002', 'data', 'data: an event has data or a body, not both', null, $4);
  end if;
  perform {schema}.check_text('content_type', $3, 255, $4);
  if $3 !~ '^[^/]+/[^/]+$' then
    perform {schema}.refuse('PR002', 'content_type',
      format('content_type: %s is no media type such as image/png', to_json($3)), null, $4);
  end if;
end
$$;

-- Refuses a type that may not be recorded; only called when it is reserved or not declared.
create or replace function {schema}.check_undeclared(
  type text, batch_position integer) returns void
  language plpgsql as $$
declare
  nearest text;
begin
  perform {schema}.check_text('type', check_undeclared.type, 255, batch_position);
  if check_undeclared.type !~ '^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$' then
    perform {schema}.refuse('PR002', 'type',
      format('type: %s is no dotted name of letters, digits, _ and -', to_json(check_undeclared.type)),
      null, batch_position);
  end if;
  if check_undeclared.type ~ '^postrider(\.|$)' then
    perform {schema}.refuse('PR002', 'type',
      format('type: %s is reserved: postrider. names are Postrider''s own', check_undeclared.type),
      null, batch_position);
  end if;
  if not (select s.undeclared_types from {schema}.setting s) then
    nearest := {schema}.nearest_types(check_undeclared.type);
    perform {schema}.refuse('PR001', 'type',
      format('type: %s is not declared', check_undeclared.type),
      case when nearest is not null then 'Declared and alike: ' || nearest || '.'
           when exists (select from {schema}.event_type)
             then 'No declared type is alike: see `postrider types list`.'
           else 'No type is declared yet: see `postrider types declare`.' end,
      batch_position);
  end if;
end
$$;

-- Remembers an id that the caller chose. Returns whether the event is new; the same id with other
-- content is refused.
create or replace function {schema}.claim_record_key(
  id uuid, hash bytea, seq bigint, occurred_at timestamptz, batch_position integer) returns boolean
  language plpgsql as $$
declare
  known bytea;
begin
  loop
    insert into {schema}.record_key as k (id, content_hash, seq, occurred_at)
      values ($1, $2, $3, $4) on conflict do nothing;
    if found then
      return true;
    end if;
    select k.content_hash into known from {schema}.record_key k where k.id = $1;
    exit when found;
    -- It was forgotten between the two statements, so the id is free again.
  end loop;
  if known = $2 then
    return false;
  end if;
  perform {schema}.refuse('PR004', 'id', format('id: %s was recorded before with other content', $1),
    'An id stands for one event; use a new id for a new event.', batch_position);
end
$$;

-- Refuses a payload over the limit.
create or replace function {schema}.check_size(bytes integer, batch_position integer) returns void
  language plpgsql as $$
declare
  bytes_max integer;
begin
  select s.data_bytes_max into bytes_max from {schema}.setting s;
  if $1 > bytes_max then
    perform {schema}.refuse('PR003', 'data',
      format('data: is %s bytes long, at most %s fit', $1, bytes_max),
      'Put large content elsewhere and record where it is, or raise the setting data_bytes_max.', $2);
  end if;
end
$$;

-- The contract: writes the event and its mark, returns the event's id. JSON goes into `data`; anything
-- else into `body` with its `content_type`. `batch_position` is for `record_many` alone.
create or replace function {schema}.record(
  type text, subject text, data jsonb default '{}', key text default null, tenant text default '',
  headers jsonb default null, id uuid default null, body bytea default null,
  content_type text default null, batch_position integer default null) returns uuid
  language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  bytes integer;
  event_id uuid := $7;
  event_key text := coalesce($4, $2);
  seq bigint;
  occurred_at timestamptz;
begin
  if left($1, 10) = 'postrider.' then
    perform {schema}.check_undeclared($1, $10);
  end if;
  if $2 is null or $2 = '' or octet_length($2) > 1024 or $2 ~ '[\u0001-\u001f\u007f-\u009f]' then
    perform {schema}.check_text('subject', $2, 1024, $10);
  end if;
  if $4 is not null then
    perform {schema}.check_text('key', $4, 1024, $10);
  end if;
  if $5 is null or $5 <> '' then
    perform {schema}.check_text('tenant', $5, 255, $10);
  end if;
  if $8 is not null or $9 is not null then
    perform {schema}.check_bytes($3, $8, $9, $10);
    data := null;
  end if;
  bytes := coalesce(octet_length($8), octet_length($3::text));
  if bytes is null then
    perform {schema}.refuse('PR002', 'data', 'data: is missing',
      'JSON null is written ''null''::jsonb.', $10);
  elsif bytes > 1024 then
    -- The limit is never set below this, so small events need not ask for it.
    perform {schema}.check_size(bytes, $10);
  end if;
  if $6 is not null then
    perform {schema}.check_headers($6, $10);
    headers := nullif($6, '{}');
  end if;

  -- The transaction id first, the sequence second: the relay's floor relies on this order.
  seq := case when pg_current_xact_id() is not null then nextval('{schema_in_literal}.event_seq') end;
  occurred_at := clock_timestamp();
  if event_id is null then
    event_id := encode(set_bit(set_bit(
        overlay(uuid_send(gen_random_uuid()) placing
          substring(int8send(floor(extract(epoch from occurred_at) * 1000)::bigint) from 3)
          from 1 for 6),
        52, 1), 53, 1), 'hex')::uuid;
  elsif not {schema}.claim_record_key(event_id,
      sha256(convert_to(jsonb_build_array(
        $1, $2, $3, encode($8, 'base64'), $9, event_key, $5, $6)::text, 'UTF8')),
      seq, occurred_at, $10) then
    return event_id;
  end if;
  -- The type is looked up in the statement that needs it: one of its own costs more than the index.
  insert into {schema}.event as e
      (seq, occurred_at, id, tenant, type, subject, key, data, body, content_type, headers)
    select seq, occurred_at, event_id, $5, t.type, $2, event_key, $3, $8, $9, $6
    from {schema}.event_type t where t.type = $1;
  if not found then
    perform {schema}.check_undeclared($1, $10);
    insert into {schema}.event as e
        (seq, occurred_at, id, tenant, type, subject, key, data, body, content_type, headers)
      values (seq, occurred_at, event_id, $5, $1, $2, event_key, $3, $8, $9, $6);
  end if;
  insert into {schema}.owed as o (seq, occurred_at) values (seq, occurred_at);
  -- The doorbell. Every writer takes the bell's lock in share mode; that fails only while a relay
  -- sleeps or is about to, and only then a notification is sent. A notification queue that is half
  -- full is left alone: the relay's sweep finds the event.
  if current_setting('postrider.wake', true) is distinct from 'off'
     and not pg_try_advisory_xact_lock_shared({bell_key})
     and pg_notification_queue_usage() < 0.5 then
    perform pg_notify({channel}, 'owed');
  end if;
  return event_id;
end
$$;

-- Refuses an element of a batch whose fields could not be taken as they are.
create or replace function {schema}.check_element(event jsonb, batch_position integer) returns void
  language plpgsql as $$
declare
  odd text;
begin
  if jsonb_typeof(event) <> 'object' then
    perform {schema}.refuse('PR002', 'events',
      format('is a JSON %s, an object is needed', jsonb_typeof(event)), null, batch_position);
  end if;
  select string_agg(k, ', ' order by k) into odd from jsonb_object_keys(event) k
    where k not in ('type', 'subject', 'data', 'body', 'content_type', 'key', 'tenant', 'headers', 'id');
  if odd is not null then
    perform {schema}.refuse('PR002', 'events', 'unknown field: ' || odd, null, batch_position);
  end if;
  select f.key into odd from jsonb_each(event) f
    where f.key not in ('data', 'headers') and jsonb_typeof(f.value) not in ('string', 'null') limit 1;
  if odd is not null then
    perform {schema}.refuse('PR002', odd,
      format('%s: is a JSON %s, a text is needed', odd, jsonb_typeof(event -> odd)), null, batch_position);
  end if;
  if event ->> 'id' !~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' then
    perform {schema}.refuse('PR002', 'id', format('id: %s is no UUID', event -> 'id'), null, batch_position);
  end if;
  if event ->> 'body' ~* '[^0-9a-f]' or length(event ->> 'body') % 2 = 1 then
    perform {schema}.refuse('PR002', 'body', 'body: is not in base 16', null, batch_position);
  end if;
end
$$;

-- Records an array of objects with the fields of `record` (or `body` in base 16 and `content_type`
-- instead of `data`), in order; returns the ids in the same order. All or none.
create or replace function {schema}.record_many(events jsonb) returns uuid[]
  language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  ids uuid[] := '{}';
  event jsonb;
  place integer := 0;
begin
  if jsonb_typeof(events) is distinct from 'array' then
    perform {schema}.refuse('PR002', 'events', 'events: an array of objects is needed');
  end if;
  if jsonb_array_length(events) > 10000 then
    perform {schema}.refuse('PR002', 'events',
      format('events: %s in one batch, at most 10000 fit', jsonb_array_length(events)));
  end if;
  for event in select value from jsonb_array_elements(events) loop
    place := place + 1;
    perform {schema}.check_element(event, place);
    ids := ids || {schema}.record(
      event ->> 'type', event ->> 'subject', coalesce(event -> 'data', '{}'), event ->> 'key',
      coalesce(event ->> 'tenant', ''), nullif(event -> 'headers', 'null'),
      (event ->> 'id')::uuid, decode(event ->> 'body', 'hex'), event ->> 'content_type', place);
  end loop;
  return ids;
end
$$;
