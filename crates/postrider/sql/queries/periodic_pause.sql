-- Pauses a periodic job. $1 name. No row: there is none.
update {schema}.periodic p set paused_at = coalesce(p.paused_at, clock_timestamp())
where p.name = $1 returning p.id
