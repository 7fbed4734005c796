-- Both sides begin with empty tables.
truncate ceiling.orders, ceiling.events, ceiling.owed, ceiling.jobs;
truncate {schema}.event, {schema}.owed, {schema}.fanout, {schema}.job, {schema}.job_history, {schema}.lease;
