-- The verdict: what the shop committed (`journal`, `customer_order`) against the events, their
-- fan-out, their jobs, and what the handlers wrote. Rows are compared; no counter of the engine is
-- read. Scans everything once or twice: it is called at the end.
with j as materialized (
  select * from postrider_demo_shop.journal
), job as materialized (
  select id, event_seq, subscription_id, 'unfinished' as state, origin, null::uuid as session_id
  from postrider_demo.job
  union all
  select id, event_seq, subscription_id, state::text, origin, session_id
  from postrider_demo.job_history
), subscription as (
  select id, name from postrider_demo.subscription where deleted_at is null
), killed as (
  select k.session_id, unnest(k.job_ids) as job_id from postrider_demo_shop.kill k
),
-- Committed, but some subscriber that should have got the event never handled it.
lost_events as (
  select count(*) as n from j
  left join postrider_demo.event e on e.id = j.event_id
  left join postrider_demo.fanout f on f.seq = e.seq
  left join (select distinct event_id from postrider_demo_shop.audit where ok) a
    on a.event_id = j.event_id
  left join (select distinct event_id from postrider_demo_shop.ledger) l on l.event_id = j.event_id
  where e.id is null or f.seq is null or a.event_id is null
    or j.type = 'order.paid' and l.event_id is null
    or not f.subscription_ids @> array(
      select s.id from subscription s
      where s.name in ('audit', 'search.index') or s.name = 'billing.ledger' and j.type = 'order.paid')
),
-- The coalescing subscriber may skip steps of an order, never the last one.
stale_rows as (
  select count(*) as n from postrider_demo_shop.customer_order o
  left join postrider_demo_shop.search_row s on s.order_id = o.id
  where (s.status, s.amount_cents, s.revision) is distinct from (o.status, o.amount_cents, o.revision)
),
-- Found somewhere, though its transaction was rolled back or never was.
phantom_events as (
  select count(*) as n from postrider_demo.event e
  where not exists (select from j where j.event_id = e.id)
), phantom_effects as (
  select count(*) as n from (
    select event_id from postrider_demo_shop.audit
    union select event_id from postrider_demo_shop.ledger) effect
  where not exists (select from j where j.event_id = effect.event_id)
), phantom_rows as (
  select count(*) as n from postrider_demo_shop.search_row s
  where not exists (select from j where j.order_id = s.order_id)
),
-- More than one delivery of one event to one subscription: by the jobs, by the fan-out's own record,
-- and by the attempts that the audit saw: two jobs would each have a first one.
job_twins as (
  select coalesce(sum(n - 1), 0)::bigint as n from (
    select count(*) as n from job where origin = 'fanout' group by event_seq, subscription_id) g
), fanout_twins as (
  select count(*) - count(distinct seq) as n from postrider_demo.fanout
), recorded_twins as (
  select count(*) as n from postrider_demo.fanout f
  where cardinality(f.subscription_ids) <> (select count(distinct id) from unnest(f.subscription_ids) id)
), -- A process that lost its lease stops its handlers and gives the attempts back unused: an audit that
-- was written by then has the number of the next one, which is no second job.
released as (
  select e.id as event_id, t.attempt, count(*) as n
  from postrider_demo.job_attempt t
  join job on job.id = t.job_id
  join subscription s on s.id = job.subscription_id and s.name = 'audit'
  join postrider_demo.event e on e.seq = job.event_seq
  where t.outcome = 'released' group by e.id, t.attempt
), audit_twins as (
  select coalesce(sum(greatest(g.n - 1 - coalesce(r.n, 0), 0)), 0)::bigint as n from (
    select event_id, attempt, count(*) as n from postrider_demo_shop.audit group by event_id, attempt) g
  left join released r on r.event_id = g.event_id and r.attempt = g.attempt
),
-- Each paid order has one row of its amount in the ledger, and nothing else is there.
ledger_mismatch as (
  select count(*) as n from (
    select order_id, sum(amount_cents) as amount from j where type = 'order.paid' group by order_id) paid
  full join (
    select order_id, count(*) as entries, sum(amount_cents) as amount
    from postrider_demo_shop.ledger group by order_id) booked using (order_id)
  where booked.entries is distinct from 1 or booked.amount is distinct from paid.amount
)
select (select count(*) from j) as recorded,
  (select count(*) from postrider_demo_shop.abandoned) as rolled_back,
  (select count(*) from postrider_demo.fanout where not skipped) as fanned_out,
  (select count(*) from job where origin = 'fanout') as jobs,
  (select count(*) from job where state = 'completed') as handled,
  (select count(*) from postrider_demo_shop.kill) as kills,
  (select count(*) from killed) as running_at_kill,
  (select count(*) from killed k where exists (
    select from job where job.id = k.job_id and job.state = 'completed'
      and job.session_id <> k.session_id)) as rescued,
  lost_events.n + stale_rows.n as lost,
  job_twins.n + fanout_twins.n + recorded_twins.n + audit_twins.n as duplicate_fanouts,
  phantom_events.n + phantom_effects.n + phantom_rows.n as phantom,
  ledger_mismatch.n as ledger_mismatch,
  (select count(*) from postrider_demo_shop.audit where not ok) as retries,
  (select count(distinct xact::text) from j where late) as late_commits,
  (select extract(epoch from coalesce(finished_at, clock_timestamp()) - started_at)::float8
   from postrider_demo_shop.run) as seconds
from lost_events, stale_rows, phantom_events, phantom_effects, phantom_rows, job_twins, fanout_twins,
  recorded_twins, audit_twins, ledger_mismatch
