-- First look of the floor: the newest sequence number drawn. Asked before the transaction ids are
-- looked at, in a statement of its own: every writer that drew a smaller number has its id by then.
select last_value as seq from {schema}.event_seq
