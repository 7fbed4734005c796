-- Events each second between the first and the last fan-out.
select (count(*) / greatest(extract(epoch from max(fanned_out_at) - min(fanned_out_at)), 0.001))::float8
from {schema}.fanout
