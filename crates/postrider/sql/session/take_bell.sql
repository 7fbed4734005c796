-- Asks for the bell. Granted once every writer that stayed silent has ended; while this waits,
-- new writers ring. The wait is short, so a long silent writer cannot make all the others ring.
-- First the word whether the server takes no writes: the bell of such a server is nobody's.
-- Jobs that were enqueued in silence are all there to be seen now, so the workers are told.
show transaction_read_only; set lock_timeout = '25ms'; select pg_advisory_lock({bell_key});
select pg_notify({channel}, 'due') from {schema}.subscription s
where s.source = 'enqueue' and s.deleted_at is null limit 1
