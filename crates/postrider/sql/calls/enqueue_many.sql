-- $1 the batch as a JSON array. Returns `id result`, joined by commas, in the order of the batch.
select string_agg(e.job_id || ' ' || e.result, ',' order by e.batch_place)
from {schema}.enqueue_many($1::jsonb) e
