-- Deletes leases of which no job is held any more. Called after settles, and by the rescue.
-- $1 tokens. Indexes: lease_pkey, job_pkey. A lease that still holds a job stays.
delete from {schema}.lease l
where l.token = any($1)
  and not exists (
    select from {schema}.job j where j.id = any(l.job_ids) and j.lease_token = l.token)
returning l.token
