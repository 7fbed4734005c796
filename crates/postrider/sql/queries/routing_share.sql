-- Takes the routing lock in share mode for the rest of the transaction. A change of types,
-- subscriptions or routes holds it exclusively, so that a fan-out sees all of a change or none.
-- $1 whether the commit waits for the disk. A fan-out that starts no job need not: one that a crash of
-- the server undoes is done again, and no job of it has started, since the claim of a job waits for the
-- disk and so for all that was committed before.
-- A process that is stopped in the middle must not keep the lock, nor the events that it claimed:
-- the server ends its transaction after five seconds without a word. The mark `postrider.routing`
-- lasts as long as the lock and shows the fan-out that it is held. Always one row.
select set_config('idle_in_transaction_session_timeout', '5s', true),
  case when not $1 then set_config('synchronous_commit', 'off', true) end,
  set_config('postrider.routing', 'shared', true),
  pg_advisory_xact_lock_shared({routing_key})
