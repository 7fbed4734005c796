-- The ceiling's jobs, as many as ours. :n jobs.
truncate ceiling.jobs, ceiling.history;
insert into ceiling.jobs (args) select '{"a":1}' from generate_series(1, :n);
vacuum analyze ceiling.jobs;
