-- The shop's own schema, apart from Postrider's: its orders, its journal of what it really committed,
-- and what the subscribers wrote. Only primary keys that the shop itself needs: `ledger` and `audit`
-- have none, so that an event that is handled twice shows.
create table postrider_demo_shop.customer_order (
  id bigint primary key,
  status text not null,
  amount_cents bigint not null,
  revision integer not null
);

-- One row for each recorded event, written by the same transaction, so that it is there exactly when
-- the event must be. This is the verdict's witness.
create table postrider_demo_shop.journal (
  event_id uuid primary key,
  order_id bigint not null,
  revision integer not null,
  type text not null,
  amount_cents bigint not null,
  late boolean not null,
  xact xid8 not null default pg_current_xact_id()
);

-- Events whose transaction was rolled back, noted afterwards. They must not be anywhere else.
create table postrider_demo_shop.abandoned (
  event_id uuid primary key,
  order_id bigint not null
);

-- Written by `search.index`: the current state of each order.
create table postrider_demo_shop.search_row (
  order_id bigint primary key,
  status text not null,
  amount_cents bigint not null,
  revision integer not null
);

-- Written by `billing.ledger`, in the transaction that settles its job.
create table postrider_demo_shop.ledger (
  order_id bigint not null,
  event_id uuid not null,
  amount_cents bigint not null,
  worker text not null
);

-- Written by `audit`, one row for each attempt that it got to the end of.
create table postrider_demo_shop.audit (
  event_id uuid not null,
  attempt integer not null,
  ok boolean not null,
  worker text not null
);

-- Worker processes that were killed, with the jobs that were running in them when they died.
create table postrider_demo_shop.kill (
  worker text not null,
  session_id uuid not null,
  job_ids bigint[] not null
);

-- The run itself. One row.
create table postrider_demo_shop.run (
  started_at timestamptz not null default clock_timestamp(),
  finished_at timestamptz
);
insert into postrider_demo_shop.run default values;
