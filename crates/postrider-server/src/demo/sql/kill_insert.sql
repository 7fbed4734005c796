-- A worker that was killed. $1 worker, $2 its session, $3 the jobs that were running in it.
insert into postrider_demo_shop.kill (worker, session_id, job_ids) values ($1, $2, $3)
