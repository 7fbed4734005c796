-- Takes the routing lock in share mode for the rest of the transaction. A change of types,
-- subscriptions or routes holds it exclusively, so that a fan-out sees all of a change or none.
select pg_advisory_xact_lock_shared({routing_key})
