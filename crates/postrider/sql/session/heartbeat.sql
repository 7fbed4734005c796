-- Whether the connection lives, and whether its server takes writes: `on` when it takes none, as
-- after a failover.
show transaction_read_only
