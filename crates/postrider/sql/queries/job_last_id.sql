-- The largest id of a job so far. Always one row.
select last_value as id from {schema}.job_id_seq
