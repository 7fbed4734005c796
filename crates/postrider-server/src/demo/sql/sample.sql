-- What the live view shows. Counting the finished jobs takes longer the more there are; the view
-- looks less often then.
select (select count(*) from postrider_demo.owed) as owed,
  (select count(*) from postrider_demo.fanout_failure) as failed_fanouts,
  (select count(*) from postrider_demo.job) as jobs,
  (select count(*) from postrider_demo.job_history where state = 'completed') as handled,
  (select count(*) from postrider_demo.job_attempt where outcome = 'retry') as retries,
  array(select s.name from postrider_demo.session s where s.ended_at is null order by 1) as sessions,
  array(
    select (select count(*) from postrider_demo.lease l cross join unnest(l.job_ids) held(id)
            join postrider_demo.job j on j.id = held.id and j.lease_token = l.token
            where l.session_id = s.id)
    from postrider_demo.session s where s.ended_at is null order by s.name) as running
