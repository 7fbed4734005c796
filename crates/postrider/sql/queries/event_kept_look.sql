-- Whether the default partition holds events over their retention: only then the routing is locked to
-- forget them. $1 clock shift in microseconds. The default partition holds few rows.
select exists (
  select from {schema}.event_default e, {schema}.setting s
  where e.occurred_at < clock_timestamp() + $1 * interval '1 microsecond' - s.event_retention
) as any
