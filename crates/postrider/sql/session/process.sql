-- The server process that runs this.
select pg_backend_pid()
