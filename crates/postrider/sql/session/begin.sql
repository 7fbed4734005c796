-- Begins a transaction whose every statement sees what is committed by then, whatever the database's
-- default is: what waits for a lock must see what its holder did.
start transaction isolation level read committed
