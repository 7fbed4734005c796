-- Where processes meet: the notification channel and the advisory locks of this schema.
-- `bell`: held by a relay that sleeps; `duty`: by the relay that may sleep on the bell; `routing`:
-- shared by each fan-out, exclusive for a change of types, subscriptions or routes.
create or replace function {schema}.wake_keys(
  out channel text, out bell bigint, out duty bigint, out routing bigint)
  language sql immutable set search_path = pg_catalog, pg_temp as $$
  select {channel}, {bell_key}, {duty_key}, {routing_key}
$$;
