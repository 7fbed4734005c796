-- Ends what is left of the demo's connections, so that nothing holds its schemas.
-- $1 a pattern of their application_name.
select pg_terminate_backend(pid) from pg_stat_activity
where application_name like $1 and pid <> pg_backend_pid()
