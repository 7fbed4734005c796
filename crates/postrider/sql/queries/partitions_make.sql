-- Makes the partitions of today and the days ahead. $1 days, $2 clock shift in microseconds.
select {schema}.make_partitions(clock_timestamp() + $2 * interval '1 microsecond', $1)
