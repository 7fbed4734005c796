-- The last step that was applied and the revision of the functions.
select coalesce((select max(m.version) from {schema}.migration m), 0) as version,
  coalesce((select f.revision from {schema}.function_set f), 0) as revision
