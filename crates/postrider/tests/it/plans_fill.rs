//! Rows for the tests of plans.

/// Tables of a busy day: 200,000 events, half of them owed, as many jobs, and history.
pub const FILL: &str = "
    insert into postrider.event_type (type) select 'a.t' || n from generate_series(1, 1000) n;
    insert into postrider.subscription (name, globs, declared_globs, backoff,
      created_routing_version)
      select 's' || n, '{a.*}', '{a.*}', '{\"list\": {\"delays_ms\": [1000]}}', 1
      from generate_series(1, 20) n;
    update postrider.subscription set deleted_at = now() where name = 's20';
    insert into postrider.route select 'a.t' || n, s from generate_series(1, 1000) n,
      generate_series(1, 3) s;
    insert into postrider.event (seq, occurred_at, id, tenant, type, subject, key, data)
      select n, now() + (n % 3) * interval '1 day', gen_random_uuid(), '', 'a.t' || n % 1000,
        n::text, n::text, '{}'
      from generate_series(1, 200000) n;
    insert into postrider.owed select seq, occurred_at from postrider.event where seq > 100000;
    insert into postrider.fanout (seq, occurred_at, fanned_out_at, routing_version,
      subscription_ids, job_ids)
      select seq, occurred_at, now(), 1, '{1,2}', array[seq * 2,
        seq * 2 + 1] from postrider.event where seq <= 100000;
    insert into postrider.session (id, name, version, runs_relay, started_at, expires_at,
      ended_at, end_reason)
      select ('00000000-0000-0000-0000-' || lpad(n::text, 12, '0'))::uuid, 'n', 'v', true, now(),
        now(),
        case when n > 2 then now() end, case when n > 2 then 'lost' end
      from generate_series(1, 5) n;
    insert into postrider.lease (session_id, job_ids, claimed_at)
      select ('00000000-0000-0000-0000-' || lpad((1 + n % 5)::text, 12, '0'))::uuid,
        array(select generate_series(n * 10, n * 10 + 9)), now() from generate_series(1, 100) n;
    insert into postrider.job (id, event_seq, event_occurred_at, due_at, created_at,
      subscription_id, origin,
        priority, tenant, state, lease_token, started_at, attempt)
      select n, e.seq, e.occurred_at, now(), now(), 1 + n % 20, 'fanout', 2, '',
        (case when n between 10 and 1009 then 'running' else 'pending' end)::postrider.job_state,
        case when n between 10 and 1009 then n / 10 end,
          case when n between 10 and 1009 then now() end, 1
      from generate_series(1, 200000) n join postrider.event e on e.seq = n;
    insert into postrider.job_history (id, event_seq, event_occurred_at, finished_at, started_at,
      created_at,
        subscription_id, attempt, extra_attempts, state, origin, priority, tenant, last_error)
      select 200000 + n, n, now(), now() + (n % 3) * interval '1 day', now(), now(), 1, 1, 0,
        (case when n % 5 = 0 then 'discarded' else 'completed' end)::postrider.job_state,
          'fanout', 2, '', 'x'
      from generate_series(1, 100000) n;
    insert into postrider.job_attempt select n, 1, now(), now(), null, 'retry',
      'x' from generate_series(1, 20000) n;
    insert into postrider.record_key select gen_random_uuid(), sha256(''), n,
      now() - n * interval '1 second'
      from generate_series(1, 50000) n;
    insert into postrider.unique_key select sha256(n::text::bytea), n, now(),
      now() - n * interval '1 minute'
      from generate_series(1, 50000) n;
    insert into postrider.fanout_failure (seq, occurred_at, tenant, key, attempts, retry_at,
      poisoned_at, last_error)
      select n, now(), '', 'k', 1, case when n % 2 = 0 then now() end,
        case when n % 2 = 1 then now() end, 'x'
      from generate_series(1, 5000) n;";

/// Analyses what is filled, as autovacuum would; partitions without rows are never analysed.
pub const ANALYZE: &str = "
    do $$ declare t record; begin
      for t in select c.oid::regclass as name from pg_class c
          where c.relnamespace = 'postrider'::regnamespace and c.relkind = 'r' and
            pg_relation_size(c.oid) > 0 loop
        execute format('analyze %s', t.name);
      end loop; end $$";
