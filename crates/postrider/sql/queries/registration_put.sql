-- Remembers that a live session handles a subscription. $1 session, $2 subscription, $3 globs.
insert into {schema}.registration (session_id, subscription_id, globs) values ($1, $2, $3)
on conflict (session_id, subscription_id) do update set globs = excluded.globs
