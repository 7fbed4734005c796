-- Which server process answers. A simple statement, so that a pooler may give it to any.
select pg_backend_pid()
