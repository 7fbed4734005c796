-- Jobs each second between the first start and the last finish.
select (count(*) / greatest(extract(epoch from max(finished_at) - min(started_at)), 0.001))::float8
from {schema}.job_history where state = 'completed'
