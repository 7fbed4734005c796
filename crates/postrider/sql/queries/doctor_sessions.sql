-- The sessions that live, and those that are dead and still hold leases: their jobs wait for rescue.
-- Indexes: session_live, lease_of_session. Ended sessions are kept for two weeks and are few.
select s.name, s.version, s.runs_relay, s.started_at,
  s.ended_at is null and s.expires_at >= clock_timestamp() as lives
from {schema}.session s
where s.ended_at is null or exists (select from {schema}.lease l where l.session_id = s.id)
order by s.started_at
limit 1000
