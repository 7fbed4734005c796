-- Takes the routing lock alone for the rest of the transaction: no fan-out runs meanwhile, and no
-- other change of types, subscriptions or routes.
select pg_advisory_xact_lock({routing_key})
