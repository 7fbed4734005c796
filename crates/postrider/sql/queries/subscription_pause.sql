-- Pauses or resumes a subscription. $1 name, $2 whether to pause. No row: there is none.
update {schema}.subscription s
set paused_at = case when $2 then coalesce(s.paused_at, clock_timestamp()) end
where s.name = $1 and s.deleted_at is null
returning s.id
