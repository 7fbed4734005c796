, changed as (
  -- Second half: those that wait are due now.
  update {schema}.job j set due_at = now() + $4 * interval '1 microsecond'
  where j.id = any(array(select id from picked)) and j.state = 'pending'
    and j.due_at > now() + $4 * interval '1 microsecond'
  returning j.id
)
select max(l.id) as last_id, count(*) as looked_at, (select count(*) from changed) as changed from looked l
