-- Declares types; a lower version never overwrites a higher one. $1 types, each once,
-- $2 descriptions, $3 exposures, $4 versions. Returns the types that are new or changed.
insert into {schema}.event_type as t (type, description, exposure, version)
select d.type, d.description, d.exposure::{schema}.exposure, d.version
from unnest($1::text[], $2::text[], $3::text[], $4::integer[]) d(type, description, exposure, version)
on conflict (type) do update
  set description = excluded.description, exposure = excluded.exposure, version = excluded.version,
    declared_at = clock_timestamp()
  where excluded.version >= t.version
    and (t.description, t.exposure, t.version)
      is distinct from (excluded.description, excluded.exposure, excluded.version)
returning type
