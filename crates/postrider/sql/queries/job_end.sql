-- Where a job stands, with what it left. $1 id. Indexes: the primary keys of job and job_history.
-- No row: there is no such job, or it is over its retention. A job that is being moved from one
-- table to the other is found in one of them: both are read in one snapshot.
select j.state::text as state, null::jsonb as output, j.last_error
from {schema}.job j where j.id = $1
union all
select h.state::text, h.output, h.last_error from {schema}.job_history h where h.id = $1
