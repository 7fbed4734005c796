-- First look of the floor: the newest sequence number drawn, 0 while none is. Asked before the
-- transaction ids are looked at, in a statement of its own: every writer that drew a smaller number
-- has its id by then. A sequence that nobody used yet says last_value = 1, which is still to come.
select case when s.is_called then s.last_value else 0 end as seq from {schema}.event_seq s
