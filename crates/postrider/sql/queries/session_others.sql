-- Whether a relay may have died of an event lately: one whose session was lost within ten minutes,
-- or one that missed a renewal (a session is renewed at a third of its lease; two seconds are allowed
-- for a slow one). `neighbours` are the others on this host that are open: a supervisor may have
-- started us before a dead one missed any renewal, which the caller can tell better. Relays that are
-- alive elsewhere are not suspect. The host is what precedes the colon of a name.
-- $1 this session, $2 the lease in microseconds. Indexes: session_pkey, session_live, and a look at
-- the few sessions of the last two weeks. Always one row.
select coalesce(bool_or(l.is_suspect), false) as suspect,
  coalesce(array_agg(l.id) filter (where l.is_near and not l.is_suspect), '{}') as neighbour_ids,
  coalesce(array_agg(l.name) filter (where l.is_near and not l.is_suspect), '{}') as neighbour_names
from (
  select s.id, s.name, case
      when s.ended_at is not null
        then s.end_reason = 'lost' and s.ended_at > clock_timestamp() - interval '10 minutes'
      else s.expires_at < clock_timestamp()
        + greatest($2 * interval '1 microsecond' * 2 / 3 - interval '2 seconds', interval '0')
    end as is_suspect,
    s.ended_at is null and split_part(s.name, ':', 1)
      = (select split_part(o.name, ':', 1) from {schema}.session o where o.id = $1) as is_near
  from {schema}.session s
  where s.id <> $1 and s.runs_relay) l
