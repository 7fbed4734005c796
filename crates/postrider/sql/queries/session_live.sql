-- Whether a session has not ended. $1 session. Index: session_pkey. Always one row.
select exists (select from {schema}.session where id = $1 and ended_at is null) as live
