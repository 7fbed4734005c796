-- Takes the routing lock alone for the rest of the transaction: no fan-out runs meanwhile, and no
-- other change of types, subscriptions or routes. Waits for twenty seconds at most; the server ends
-- the transaction of a process that falls silent in it after five. Always one row.
select set_config('idle_in_transaction_session_timeout', '5s', true),
  set_config('lock_timeout', '20s', true), pg_advisory_xact_lock({routing_key})
