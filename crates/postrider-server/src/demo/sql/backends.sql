-- Server processes that still work for a program. $1 a pattern of its application_name.
select count(*) from pg_stat_activity where application_name like $1 and pid <> pg_backend_pid()
