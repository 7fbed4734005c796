-- $1 kind, $2 arguments, $3 run_at, $4 delay, $5 priority, $6 most attempts, $7 tenant, $8 key,
-- $9 unique by, $10 unique states, both as arrays, $11 unique for, $12 debounce, $13 longest debounce;
-- all texts. Returns the id and what happened, with a space between.
select e.job_id || ' ' || e.result from {schema}.enqueue($1, $2::jsonb, $3::timestamptz, $4::interval,
  $5, $6::integer, $7, $8, $9::text[], coalesce($10::text[], '{pending}'), $11::interval,
  $12::interval, $13::interval) e
