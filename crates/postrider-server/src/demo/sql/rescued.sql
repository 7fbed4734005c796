-- How many of these jobs were taken back from a dead worker. $1 job ids, $2 the dead worker's session.
-- Index: job_attempt_of_job.
select count(distinct job_id) from postrider_demo.job_attempt
where job_id = any($1) and session_id = $2 and outcome = 'lost'
