, changed as (
  -- Second half: those that wait are due at another time.
  update {schema}.job j set due_at = $10
  where j.id = any(array(select id from picked)) and j.state = 'pending'
  returning j.id
)
select max(l.id) as last_id, count(*) as looked_at, (select count(*) from changed) as changed from looked l
