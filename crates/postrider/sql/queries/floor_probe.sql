-- First look of the floor: the newest sequence number drawn. Asked before the transaction ids are
-- looked at, in a statement of its own: every writer that drew a smaller number has its id by then.
-- A sequence that was never used shows its first number as its last: none is drawn then.
-- Reads the one row of the sequence, so there is always one.
select last_value - (not is_called)::integer as seq from {schema}.event_seq
