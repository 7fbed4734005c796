-- `audit`: one attempt. $1 event, $2 number of the attempt, $3 whether it went well, $4 worker.
insert into postrider_demo_shop.audit (event_id, attempt, ok, worker) values ($1, $2, $3, $4)
