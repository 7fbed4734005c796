-- Second half: nothing is done to them. `last_id` is null after the last batch.
select max(l.id) as last_id, count(*) as looked_at, (select count(*) from picked) as changed from looked l
