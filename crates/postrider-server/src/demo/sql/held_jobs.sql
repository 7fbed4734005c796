-- The jobs that are running in one worker, by its leases. $1 the name of the session; the newest of
-- that name counts, because a worker that was too slow to renew its lease opens another. Indexes:
-- lease_of_session, job_pkey. No row: there is no such session.
select s.id, array(
  select j.id from postrider_demo.lease l
  cross join unnest(l.job_ids) held(id)
  join postrider_demo.job j on j.id = held.id and j.lease_token = l.token and j.state = 'running'
  where l.session_id = s.id) as job_ids
from postrider_demo.session s where s.name = $1
order by s.started_at desc limit 1
