-- Ends the sessions whose lease ran out. Index: session_live. Returns their names.
with late as (
  select id from {schema}.session where ended_at is null and expires_at < clock_timestamp()
  for update skip locked
)
update {schema}.session s set ended_at = clock_timestamp(), end_reason = 'lost'
where s.id = any(array(select id from late))
returning s.id, s.name
