-- The time. $1 clock shift in microseconds. Always one row.
select clock_timestamp() + $1 * interval '1 microsecond' as now
