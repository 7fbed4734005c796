-- Tells every process of this schema something short. $1 the word. The payload never holds data.
-- A notification queue that is half full is left alone, as by `record`: once it is full, whoever
-- notifies cannot commit. No row then; those who were not told find the change by looking.
select pg_notify({channel}, $1) where pg_notification_queue_usage() < 0.5
