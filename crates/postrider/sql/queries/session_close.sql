-- Ends a session in order. $1 session. Index: session_pkey.
with gone as (delete from {schema}.registration where session_id = $1)
update {schema}.session set ended_at = clock_timestamp(), end_reason = 'stopped'
where id = $1 and ended_at is null
