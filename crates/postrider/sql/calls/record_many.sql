-- $1 the batch as a JSON array. Returns the ids, joined by commas.
select array_to_string({schema}.record_many($1::jsonb), ',')
