-- The sessions that matter: those that live, those whose lease ran out and that nobody has ended,
-- those that are over and still hold leases, and those that were lost within the last hour.
-- Indexes: session_live, lease_of_session. Ended sessions are kept for two weeks and are few.
select * from (
  select s.name, s.version, s.runs_relay, s.started_at,
    case
      when s.ended_at is null and s.expires_at >= clock_timestamp() then 'lives'
      when s.ended_at is null then 'late'
      when exists (select from {schema}.lease l where l.session_id = s.id) then 'holds'
      when s.end_reason = 'lost' and s.ended_at > clock_timestamp() - interval '1 hour' then 'lost'
    end as state,
    (extract(epoch from clock_timestamp() - coalesce(s.ended_at, s.expires_at)) * 1000)::bigint as over_ms
  from {schema}.session s) known
where known.state is not null
order by known.started_at desc
limit 1000
