//! For every rule of the schema, statements that break it: table, rule, SQL.

/// What `schema.rs` runs, after it put one good row into each table.
pub(crate) const VIOLATIONS: &[(&str, &str, &str)] = &[
    // setting
    ("setting", "data_limit_is_sane", "update postrider.setting set data_bytes_max = 1023"),
    ("setting", "data_limit_is_sane", "update postrider.setting set data_bytes_max = 67108865"),
    ("setting", "there_is_one_row", "insert into postrider.setting (only_row) values (false)"),
    ("setting", "setting_pkey", "insert into postrider.setting default values"),
    ("setting", "times_are_positive", "update postrider.setting set idempotency_window = '0'"),
    ("setting", "times_are_positive", "update postrider.setting set event_retention = '0'"),
    ("setting", "times_are_positive", "update postrider.setting set completed_retention = '0'"),
    ("setting", "times_are_positive", "update postrider.setting set discarded_retention = '0'"),
    // event_type
    ("event_type", "event_type_pkey", "insert into postrider.event_type (type) values ('a.b')"),
    ("event_type", "type_is_well_formed", "insert into postrider.event_type (type) values ('')"),
    (
        "event_type",
        "type_is_well_formed",
        "insert into postrider.event_type (type) values ('a..b')",
    ),
    ("event_type", "type_is_well_formed", "insert into postrider.event_type (type) values ('.a')"),
    ("event_type", "type_is_well_formed", "insert into postrider.event_type (type) values ('a.')"),
    (
        "event_type",
        "type_is_well_formed",
        "insert into postrider.event_type (type) values
        ('a b')",
    ),
    (
        "event_type",
        "type_is_well_formed",
        "insert into postrider.event_type (type) values
        ('a.*')",
    ),
    ("event_type", "type_is_well_formed", "insert into postrider.event_type (type) values ('é')"),
    (
        "event_type",
        "type_is_well_formed",
        "insert into postrider.event_type (type) values (E'a\\nb')",
    ),
    (
        "event_type",
        "type_is_well_formed",
        "insert into postrider.event_type (type) values (repeat('a', 256))",
    ),
    ("event_type", "version_is_positive", "update postrider.event_type set version = 0"),
    // subscription
    (
        "subscription",
        "subscription_pkey",
        "insert into postrider.subscription (id, name, globs, declared_globs, backoff,
             created_routing_version) overriding system value select id, 'other', globs, globs,
               backoff, 1 from postrider.subscription",
    ),
    (
        "subscription",
        "subscription_name_is_unique",
        "insert into postrider.subscription (name, globs, declared_globs, backoff,
             created_routing_version) select name, globs, globs, backoff,
               1 from postrider.subscription",
    ),
    ("subscription", "name_is_well_formed", "update postrider.subscription set name = ''"),
    ("subscription", "queue_is_well_formed", "update postrider.subscription set queue = ''"),
    ("subscription", "name_is_well_formed", "update postrider.subscription set name = 'a b'"),
    ("subscription", "queue_is_well_formed", "update postrider.subscription set queue = 'a b'"),
    (
        "subscription",
        "name_is_well_formed",
        "update postrider.subscription set name = repeat('a', 129)",
    ),
    (
        "subscription",
        "queue_is_well_formed",
        "update postrider.subscription set queue = repeat('a', 129)",
    ),
    ("subscription", "globs_are_few", "update postrider.subscription set globs = '{}'"),
    ("subscription", "globs_are_few", "update postrider.subscription set declared_globs = '{}'"),
    (
        "subscription",
        "globs_are_few",
        "update postrider.subscription set globs = array_fill('a'::text, '{1001}')",
    ),
    (
        "subscription",
        "globs_are_few",
        "update postrider.subscription set declared_globs = array_fill('a'::text, '{101}')",
    ),
    ("subscription", "sink_is_known", "update postrider.subscription set sink = 'pigeon'"),
    ("subscription", "attempts_are_bounded", "update postrider.subscription set max_attempts = 0"),
    (
        "subscription",
        "attempts_are_bounded",
        "update postrider.subscription set max_attempts = 1001",
    ),
    ("subscription", "timeout_is_bounded", "update postrider.subscription set timeout_ms = 0"),
    (
        "subscription",
        "timeout_is_bounded",
        "update postrider.subscription set timeout_ms = 86400001",
    ),
    ("subscription", "priority_is_known", "update postrider.subscription set priority = 0"),
    ("subscription", "priority_is_known", "update postrider.subscription set priority = 5"),
    ("subscription", "version_is_positive", "update postrider.subscription set version = 0"),
    (
        "subscription",
        "filter_error_has_a_time",
        "update postrider.subscription set filter_error = 'x'",
    ),
    (
        "subscription",
        "filter_error_has_a_time",
        "update postrider.subscription set filter_error_at = now()",
    ),
    // route
    ("route", "a_type_routes_once", "insert into postrider.route select * from postrider.route"),
    ("route", "route_subscription_id_fkey", "insert into postrider.route values ('a.b', -1)"),
    // routing
    ("routing", "routing_pkey", "insert into postrider.routing default values"),
    ("routing", "there_is_one_row", "insert into postrider.routing (only_row) values (false)"),
    ("routing", "batch_is_positive", "update postrider.routing set batch_max = 0"),
    ("routing", "batch_is_positive", "update postrider.routing set batch_max = 10001"),
    // event
    ("event", "event_is_one", "insert into postrider.event select * from postrider.event"),
    ("event", "payload_is_json_or_bytes", "update postrider.event set data = null"),
    (
        "event",
        "payload_is_json_or_bytes",
        "update postrider.event set body = '', content_type = 'a/b'",
    ),
    ("event", "payload_is_json_or_bytes", "update postrider.event set content_type = 'a/b'"),
    ("event", "payload_is_json_or_bytes", "update postrider.event set data = null, body = ''"),
    ("event_subject", "subject_fits", "update postrider.event set subject = ''"),
    ("event_subject", "subject_fits", "update postrider.event set subject = repeat('a', 1025)"),
    ("event_key", "key_fits", "update postrider.event set key = ''"),
    ("event_key", "key_fits", "update postrider.event set key = repeat('a', 1025)"),
    ("event_tenant", "tenant_fits", "update postrider.event set tenant = repeat('a', 256)"),
    ("event_headers", "headers_are_an_object", "update postrider.event set headers = '[]'"),
    // record_key
    (
        "record_key",
        "record_key_pkey",
        "insert into postrider.record_key select * from postrider.record_key",
    ),
    ("record_key", "hash_is_sha256", "update postrider.record_key set content_hash = 'x'"),
    // owed
    ("owed", "owed_pkey", "insert into postrider.owed select * from postrider.owed"),
    // fanout_failure
    (
        "fanout_failure",
        "fanout_failure_pkey",
        "insert into postrider.fanout_failure select * from postrider.fanout_failure",
    ),
    (
        "fanout_failure",
        "waits_or_is_poisoned",
        "update postrider.fanout_failure set retry_at = null",
    ),
    (
        "fanout_failure",
        "waits_or_is_poisoned",
        "update postrider.fanout_failure set poisoned_at = now(), last_error = 'x'",
    ),
    (
        "fanout_failure",
        "attempts_are_counted",
        "update postrider.fanout_failure set attempts =
        -1",
    ),
    (
        "fanout_failure",
        "poison_has_a_reason",
        "update postrider.fanout_failure set retry_at = null, poisoned_at = now()",
    ),
    // fanout
    (
        "fanout",
        "an_event_is_fanned_out_once",
        "insert into postrider.fanout select * from postrider.fanout",
    ),
    (
        "fanout",
        "each_subscription_got_a_job",
        "update postrider.fanout set subscription_ids = '{1}'",
    ),
    (
        "fanout",
        "each_subscription_got_a_job",
        "update postrider.fanout set coalesced_into =
        '{1}'",
    ),
    (
        "fanout",
        "a_skipped_event_has_no_jobs",
        "update postrider.fanout set skipped = true, subscription_ids = '{1}', job_ids = '{1}'",
    ),
    // session
    ("session", "session_pkey", "insert into postrider.session select * from postrider.session"),
    ("session", "an_end_has_a_reason", "update postrider.session set ended_at = now()"),
    ("session", "an_end_has_a_reason", "update postrider.session set end_reason = 'lost'"),
    (
        "session",
        "end_reason_is_known",
        "update postrider.session set ended_at = now(), end_reason = 'boredom'",
    ),
    // registration
    (
        "registration",
        "a_session_registers_once",
        "insert into postrider.registration select * from postrider.registration",
    ),
    (
        "registration",
        "registration_session_id_fkey",
        "update postrider.registration set session_id = gen_random_uuid()",
    ),
    (
        "registration",
        "registration_subscription_id_fkey",
        "update postrider.registration set subscription_id = -1",
    ),
    // lease
    (
        "lease",
        "lease_pkey",
        "insert into postrider.lease overriding system value select * from postrider.lease",
    ),
    (
        "lease",
        "lease_session_id_fkey",
        "update postrider.lease set session_id =
        gen_random_uuid()",
    ),
    ("lease", "a_lease_holds_jobs", "update postrider.lease set job_ids = '{}'"),
    // job
    ("job", "job_pkey", "insert into postrider.job select * from postrider.job"),
    (
        "job",
        "an_unfinished_job_is_pending_or_running",
        "update postrider.job set state = 'completed'",
    ),
    (
        "job",
        "an_unfinished_job_is_pending_or_running",
        "update postrider.job set state = 'discarded'",
    ),
    (
        "job",
        "an_unfinished_job_is_pending_or_running",
        "update postrider.job set state = 'cancelled'",
    ),
    ("job", "a_lease_iff_running", "update postrider.job set lease_token = 1"),
    (
        "job",
        "a_lease_iff_running",
        "update postrider.job set state = 'running', started_at = now(), attempt = 1",
    ),
    ("job", "a_start_iff_running", "update postrider.job set started_at = now()"),
    (
        "job",
        "a_start_iff_running",
        "update postrider.job set state = 'running', lease_token = 1, attempt = 1",
    ),
    (
        "job",
        "only_a_running_job_is_asked_to_stop",
        "update postrider.job set cancel_requested_at = now()",
    ),
    ("job", "attempts_are_counted", "update postrider.job set attempt = -1"),
    ("job", "attempts_are_counted", "update postrider.job set extra_attempts = -1001"),
    (
        "job",
        "a_running_job_has_an_attempt",
        "update postrider.job set state = 'running', started_at = now(), lease_token = 1",
    ),
    ("job", "priority_is_known", "update postrider.job set priority = 0"),
    ("job", "priority_is_known", "update postrider.job set priority = 5"),
    ("job", "an_event_is_named_whole", "update postrider.job set event_seq = 1"),
    ("job", "an_event_is_named_whole", "update postrider.job set event_occurred_at = now()"),
    ("job", "a_delivery_has_an_event", "update postrider.job set origin = 'fanout'"),
    ("job", "a_delivery_has_an_event", "update postrider.job set origin = 'replay'"),
    ("job", "a_delivery_has_an_event", "update postrider.job set origin = 'redeliver'"),
    ("job", "a_delivery_has_an_event", "update postrider.job set origin = 'test'"),
    // job_history
    (
        "job_history",
        "a_finished_job_is_one",
        "insert into postrider.job_history select * from postrider.job_history",
    ),
    (
        "job_history",
        "history_holds_final_states",
        "insert into postrider.job_completed_default (id, finished_at, created_at,
             subscription_id, attempt, extra_attempts, state, origin, priority,
               tenant) values (2, now(), now(), 1, 1, 0, 'pending', 'enqueue', 2, '')",
    ),
    (
        "job_history",
        "history_holds_final_states",
        "insert into postrider.job_completed_default (id, finished_at, created_at,
             subscription_id, attempt, extra_attempts, state, origin, priority,
               tenant) values (2, now(), now(), 1, 1, 0, 'running', 'enqueue', 2, '')",
    ),
    (
        "job_history",
        "a_discarded_job_has_a_reason",
        "update postrider.job_history set state = 'discarded'",
    ),
    (
        "job_history",
        "a_completed_job_was_started",
        "update postrider.job_history set started_at = null",
    ),
    (
        "job_history",
        "only_completed_jobs_have_output",
        "update postrider.job_history set state = 'cancelled', output = '1'",
    ),
    // job_attempt
    (
        "job_attempt",
        "outcome_is_known",
        "insert into postrider.job_attempt values (1, 1, now(), now(), null, 'shrug', null)",
    ),
    (
        "job_attempt",
        "a_failed_attempt_has_an_error",
        "insert into postrider.job_attempt values (1, 1, now(), now(), null, 'retry', null)",
    ),
    (
        "job_attempt",
        "a_failed_attempt_has_an_error",
        "insert into postrider.job_attempt values (1, 1, now(), now(), null, 'discarded', null)",
    ),
    (
        "job_attempt",
        "a_failed_attempt_has_an_error",
        "insert into postrider.job_attempt values (1, 1, now(), now(), null, 'lost', null)",
    ),
    // migration
    (
        "migration",
        "migration_pkey",
        "insert into postrider.migration select * from postrider.migration",
    ),
    // function_set
    (
        "function_set",
        "function_set_pkey",
        "insert into postrider.function_set (revision) values (1)",
    ),
    (
        "function_set",
        "there_is_one_row",
        "insert into postrider.function_set (only_row, revision) values (false, 1)",
    ),
];
