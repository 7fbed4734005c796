-- Declares a type; a lower version never overwrites a higher one. $1 type, $2 description,
-- $3 exposure, $4 version. No row: nothing changed.
insert into {schema}.event_type as t (type, description, exposure, version)
values ($1, $2, $3::{schema}.exposure, $4)
on conflict (type) do update
  set description = excluded.description, exposure = excluded.exposure, version = excluded.version,
    declared_at = clock_timestamp()
  where excluded.version >= t.version
    and (t.description, t.exposure, t.version)
      is distinct from (excluded.description, excluded.exposure, excluded.version)
returning type
