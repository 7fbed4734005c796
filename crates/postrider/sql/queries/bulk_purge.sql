, changed as (
  -- Second half: they are forgotten before their retention is over.
  delete from {schema}.job_history h where h.id = any(array(select id from picked)) returning h.id
)
select max(l.id) as last_id, count(*) as looked_at, (select count(*) from changed) as changed from looked l
