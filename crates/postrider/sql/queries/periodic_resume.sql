-- Lets a paused periodic job go on: the ticks of the pause pass. $1 name, $2 the next tick from now on.
-- No row: there is none. One that is not paused keeps its next tick.
update {schema}.periodic p
set next_due_at = case when p.paused_at is null then p.next_due_at else $2 end, paused_at = null
where p.name = $1 returning p.id
