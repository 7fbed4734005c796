-- Whether other sessions ran a relay lately and did not end in order: one of them may have died of
-- an event. $1 this session. Index: session_live and a look at the few of the last ten minutes.
select exists (
  select from {schema}.session s
  where s.id <> $1 and s.runs_relay
    and (s.ended_at is null or s.end_reason = 'lost' and s.ended_at > clock_timestamp() - interval '10 minutes')
) as suspect
