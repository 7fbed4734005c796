-- Deletes leases of which no job is held any more. Called after settles, and by the rescue.
-- $1 tokens. Indexes: lease_pkey, job_pkey, one probe per job: the limit keeps the planner from
-- reading all of job while it has no statistics. A lease that still holds a job stays.
delete from {schema}.lease l
where l.token = any($1)
  and not exists (
    select from unnest(l.job_ids) h(id)
    cross join lateral (select j.lease_token from {schema}.job j where j.id = h.id limit 1) j
    where j.lease_token = l.token)
returning l.token
