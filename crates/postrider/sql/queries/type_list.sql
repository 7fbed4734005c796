-- Every declared type, by name.
select t.type, t.description, t.exposure::text as exposure, t.version, t.declared_at
from {schema}.event_type t order by t.type
