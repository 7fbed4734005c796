-- Which of these schemas exist, and whether the demo made them. $1 names, $2 the demo's mark.
select n.nspname::text as name, coalesce(obj_description(n.oid, 'pg_namespace') = $2, false) as ours
from pg_namespace n where n.nspname = any($1)
