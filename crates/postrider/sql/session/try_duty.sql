-- Asks for the duty without waiting: a backend that waits for a lock in a SELECT keeps its snapshot
-- and would hold back vacuum for as long as it waits.
select pg_try_advisory_lock({duty_key})
