-- Drops a day of a history table. $1 table, $2 day.
select {schema}.drop_history_day($1, $2)
