-- Creates a subscription. $1 name, $2 globs, $3 tenant, $4 filter, $5 sink, $6 coalesces, $7 queue,
-- $8 max attempts, $9 backoff, $10 timeout in milliseconds, $11 priority, $12 version.
-- Without globs it is a kind of jobs that are enqueued. The caller
-- holds the routing lock, so the version it will get is the next one.
insert into {schema}.subscription (name, globs, declared_globs, tenant, filter, sink, coalesces,
  queue, max_attempts, backoff, timeout_ms, priority, version, source, created_routing_version)
values ($1, $2, $2, $3, $4::jsonpath, $5, $6, $7, $8, $9, $10, $11, $12,
  case when cardinality($2) = 0 then 'enqueue' else 'events' end,
  (select version + 1 from {schema}.routing))
returning id
