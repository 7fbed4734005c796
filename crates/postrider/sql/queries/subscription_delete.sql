-- Deletes a subscription: its routes go at once, its waiting jobs are cancelled by maintenance.
-- $1 name. No row: there is none.
update {schema}.subscription s set deleted_at = clock_timestamp()
where s.name = $1 and s.deleted_at is null
returning s.id
