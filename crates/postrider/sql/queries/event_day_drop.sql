-- Drops a day of events. $1 day, $2 most pinned events that are moved rather than keep the day.
select result, pinned from {schema}.drop_event_day($1, $2)
