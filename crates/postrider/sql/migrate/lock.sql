-- One migration at a time for each schema.
select pg_advisory_xact_lock({migrate_key});
