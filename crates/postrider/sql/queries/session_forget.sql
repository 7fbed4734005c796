-- Forgets sessions that ended two weeks ago and hold nothing.
delete from {schema}.session s
where s.ended_at < clock_timestamp() - interval '14 days'
  and not exists (select from {schema}.lease l where l.session_id = s.id)
