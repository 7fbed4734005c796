-- Whether this session may run the demo in this database: one at a time. Held until it ends.
select pg_try_advisory_lock(hashtextextended('postrider demo', 0))
