//! For every rule of application jobs, periodic jobs and watches, statements that break it.

/// What `schema.rs` runs beside the rest: table, rule, SQL.
pub(crate) const OF_JOBS: &[(&str, &str, &str)] = &[
    ("subscription", "source_is_known", "update postrider.subscription set source = 'thin air'"),
    (
        "subscription",
        "a_kind_filters_nothing",
        "update postrider.subscription set source = 'enqueue', globs = '{}',
         declared_globs = '{}', tenant = 'acme'",
    ),
    (
        "subscription",
        "a_kind_filters_nothing",
        "update postrider.subscription set source = 'enqueue', globs = '{}',
         declared_globs = '{}', coalesces = true",
    ),
    ("subscription", "globs_are_few", "update postrider.subscription set source = 'enqueue'"),
    (
        "job",
        "arguments_are_an_enqueued_jobs",
        "update postrider.job set arguments = '{}', event_seq = 1, event_occurred_at = now()",
    ),
    (
        "job",
        "arguments_are_an_enqueued_jobs",
        "update postrider.job set arguments = '{}', origin = 'test', event_seq = 1,
         event_occurred_at = now()",
    ),
    ("job", "key_fits", "update postrider.job set key = ''"),
    ("job", "key_fits", "update postrider.job set key = repeat('k', 1025)"),
    (
        "unique_key",
        "unique_key_pkey",
        "insert into postrider.unique_key select * from postrider.unique_key",
    ),
    ("unique_key", "hash_is_sha256", "update postrider.unique_key set hash = '\\x00'"),
    (
        "periodic",
        "periodic_pkey",
        "insert into postrider.periodic (id, name, kind, cron, time_zone, arguments, catch_up,
         catch_up_max, version, declared_at) overriding system value
         select id, 'other', kind, cron, time_zone, arguments, catch_up, catch_up_max, version,
           declared_at from postrider.periodic",
    ),
    (
        "periodic",
        "periodic_name_is_unique",
        "insert into postrider.periodic (name, kind, cron, time_zone, arguments, catch_up,
         catch_up_max, version, declared_at)
         select name, kind, cron, time_zone, arguments, catch_up, catch_up_max, version,
           declared_at from postrider.periodic",
    ),
    ("periodic", "name_is_well_formed", "update postrider.periodic set name = 'a b'"),
    ("periodic", "cron_is_short", "update postrider.periodic set cron = ''"),
    ("periodic", "cron_is_short", "update postrider.periodic set cron = repeat('*', 256)"),
    ("periodic", "time_zone_is_short", "update postrider.periodic set time_zone = ''"),
    ("periodic", "priority_is_known", "update postrider.periodic set priority = 5"),
    ("periodic", "catch_up_is_known", "update postrider.periodic set catch_up = 'twice'"),
    ("periodic", "catch_up_is_bounded", "update postrider.periodic set catch_up_max = 0"),
    ("periodic", "catch_up_is_bounded", "update postrider.periodic set catch_up_max = 1001"),
    ("periodic", "version_is_positive", "update postrider.periodic set version = 0"),
    ("periodic", "a_result_has_a_job", "update postrider.periodic set last_state = 'completed'"),
    (
        "periodic_tick",
        "a_tick_is_enqueued_once",
        "insert into postrider.periodic_tick select * from postrider.periodic_tick",
    ),
    (
        "periodic_tick",
        "periodic_tick_periodic_id_fkey",
        "insert into postrider.periodic_tick values (-1, now(), 1)",
    ),
    (
        "watch",
        "watch_pkey",
        "insert into postrider.watch (id, schema_name, table_name, type, subject, tenant, columns,
         include) overriding system value select id, schema_name, 'other', type, subject, tenant,
         columns, include from postrider.watch",
    ),
    (
        "watch",
        "a_table_is_watched_once_for_a_type",
        "insert into postrider.watch (schema_name, table_name, type, subject, tenant, columns,
         include) select schema_name, table_name, type, subject, tenant, columns, include
         from postrider.watch",
    ),
    ("watch", "include_is_known", "update postrider.watch set include = 'some'"),
    ("watch", "columns_are_some", "update postrider.watch set columns = '{}'"),
    (
        "watch",
        "columns_are_some",
        "update postrider.watch set columns = array_fill('a'::text, '{1601}')",
    ),
];
