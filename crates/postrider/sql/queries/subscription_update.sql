-- Overwrites what a subscription declares, when the version is not lower and something differs.
-- $1 id, then as subscription_insert from its globs on. No row: nothing changed.
update {schema}.subscription s
set declared_globs = $2, tenant = $3, filter = $4::jsonpath, sink = $5, coalesces = $6, queue = $7,
  max_attempts = $8, backoff = $9, timeout_ms = $10, priority = $11, version = $12,
  filter_error = null, filter_error_at = null
where s.id = $1 and $12 >= s.version
  and (s.declared_globs, s.tenant, s.filter::text, s.sink, s.coalesces, s.queue, s.max_attempts,
       s.backoff, s.timeout_ms, s.priority, s.version)
    is distinct from ($2, $3, ($4::jsonpath)::text, $5, $6, $7, $8, $9, $10, $11, $12)
returning s.id
