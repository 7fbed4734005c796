-- $1 job id, $2 token, $3 output; all texts. Raises PR005 when the lease was lost.
select {schema}.complete($1::bigint, $2::bigint, $3::jsonb)::text
