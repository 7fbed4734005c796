-- Opens a session. $1 id, $2 name, $3 version of the program, $4 whether it runs a relay,
-- $5 lease in microseconds. Index: session_pkey.
insert into {schema}.session (id, name, version, runs_relay, started_at, expires_at)
values ($1, $2, $3, $4, clock_timestamp(), clock_timestamp() + $5 * interval '1 microsecond')
