-- $1 type, $2 subject, $3 data, $4 key, $5 tenant, $6 headers, $7 id, $8 body in base 16,
-- $9 content type; all texts. Returns the id.
select {schema}.record($1, $2, coalesce($3::jsonb, '{}'), $4, $5, $6::jsonb, $7::uuid,
  decode($8, 'hex'), $9)::text
