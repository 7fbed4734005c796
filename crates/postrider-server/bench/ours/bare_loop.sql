-- The table of the bare loop: a row is written with a notification, and claimed by deleting it.
drop table if exists ceiling.bare;
create table ceiling.bare (id bigint primary key, at timestamptz not null default clock_timestamp());
