-- Takes the routing lock in share mode for the rest of the transaction. A change of types,
-- subscriptions or routes holds it exclusively, so that a fan-out sees all of a change or none.
-- A process that is stopped in the middle must not keep the lock, nor the events that it claimed:
-- the server ends its transaction after five seconds without a word. Always one row.
select set_config('idle_in_transaction_session_timeout', '5s', true),
  pg_advisory_xact_lock_shared({routing_key})
