-- `complete`: settles a job inside the transaction of the handler that did its work.

create or replace function {schema}.complete(job_id bigint, token bigint, output jsonb default null)
  returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  with gone as (
    delete from {schema}.job j where j.id = $1 and j.lease_token = $2 returning j.*)
  insert into {schema}.job_history
    (id, event_seq, event_occurred_at, finished_at, started_at, created_at, session_id,
     subscription_id, attempt, extra_attempts, state, origin, priority, tenant, last_error, output,
     arguments, key, tick_at)
  select gone.id, gone.event_seq, gone.event_occurred_at, clock_timestamp(), gone.started_at,
         gone.created_at, (select l.session_id from {schema}.lease l where l.token = $2),
         gone.subscription_id, gone.attempt, gone.extra_attempts, 'completed', gone.origin,
         gone.priority, gone.tenant, gone.last_error, $3, gone.arguments, gone.key, gone.tick_at
  from gone;
  if not found then
    perform {schema}.refuse('PR005', 'token',
      format('job %s is no longer held under token %s', $1, $2),
      'Its lease was lost; another worker has the job or has settled it. Roll back.');
  end if;
end
$$;

-- Null when the subscription wants the event, 'no' when not, else why the filter failed. The first
-- value of the path over the event decides: false, null or nothing means no. An error in the path
-- must not fail the fan-out, so it comes back as text. Only filtered subscriptions pay for the
-- subtransaction.
create or replace function {schema}.filter_verdict(filter jsonpath, event jsonb) returns text
  language plpgsql stable set search_path = pg_catalog, pg_temp set timezone = 'UTC' as $$
declare
  first jsonb;
begin
  first := jsonb_path_query_first_tz(event, filter);
  return case when first is null or first in ('false', 'null') then 'no' end;
exception when data_exception or program_limit_exceeded or feature_not_supported then
  return 'filter: ' || sqlerrm;
end
$$;
