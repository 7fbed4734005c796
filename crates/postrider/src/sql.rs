//! Every statement of the engine, rendered for one schema.
//!
//! How it fails: it does not. Invariants: SQL text lives in `sql/`, one file each, with the types
//! of its parameters here; a statement is the same text for every call, so that a prepared plan is
//! found again.

use tokio_postgres::types::Type;

use crate::Schema;

/// A statement and the types of its parameters.
#[derive(Debug)]
pub(crate) struct Statement {
    pub(crate) name: &'static str,
    pub(crate) text: String,
    pub(crate) types: &'static [Type],
}

macro_rules! statements {
    ($($(#[$doc:meta])* $name:ident: [$($file:literal),+] ($($type:ident),*);)+) => {
        /// The statements by name.
        #[derive(Debug)]
        pub(crate) struct Statements { $($(#[$doc])* pub(crate) $name: Statement,)+ }

        impl Statements {
            /// Renders all statements for `schema`.
            pub(crate) fn new(schema: &Schema) -> Self {
                Self { $($name: Statement {
                    name: stringify!($name),
                    text: schema.render(
                        concat!($(include_str!(concat!("../sql/queries/", $file, ".sql"))),+)),
                    types: { const TYPES: &[Type] = &[$(Type::$type),*]; TYPES },
                },)+ }
            }

            /// All of them, for tests that prepare each.
            pub(crate) fn all(&self) -> Vec<&Statement> {
                vec![$(&self.$name),+]
            }
        }
    };
}

statements! {
    bell_ring: ["bell_ring"] (TEXT);
    bulk_cancel: ["bulk_unfinished", "bulk_cancel"]
        (INT8, INT8, INT8, INT8, TEXT, TEXT, TEXT, TIMESTAMPTZ, TEXT_ARRAY, TIMESTAMPTZ);
    bulk_count_finished: ["bulk_finished", "bulk_count"]
        (INT8, INT8, INT8, INT8, TEXT, TEXT, TEXT, TIMESTAMPTZ, TEXT_ARRAY, TIMESTAMPTZ);
    bulk_count_unfinished: ["bulk_unfinished", "bulk_count"]
        (INT8, INT8, INT8, INT8, TEXT, TEXT, TEXT, TIMESTAMPTZ, TEXT_ARRAY, TIMESTAMPTZ);
    bulk_hurry: ["bulk_unfinished", "bulk_hurry"]
        (INT8, INT8, INT8, INT8, TEXT, TEXT, TEXT, TIMESTAMPTZ, TEXT_ARRAY, TIMESTAMPTZ);
    bulk_move: ["bulk_unfinished", "bulk_move"]
        (INT8, INT8, INT8, INT8, TEXT, TEXT, TEXT, TIMESTAMPTZ, TEXT_ARRAY, TIMESTAMPTZ);
    bulk_purge: ["bulk_finished", "bulk_purge"]
        (INT8, INT8, INT8, INT8, TEXT, TEXT, TEXT, TIMESTAMPTZ, TEXT_ARRAY, TIMESTAMPTZ);
    bulk_revive: ["bulk_finished", "bulk_revive"]
        (INT8, INT8, INT8, INT8, TEXT, TEXT, TEXT, TIMESTAMPTZ, TEXT_ARRAY, TIMESTAMPTZ);
    claims_return: ["claims_return"] (UUID, INT8_ARRAY, INT8);
    claim_jobs: ["claim_jobs"] (UUID, INT4_ARRAY, INT8, INT8, TIMESTAMPTZ_ARRAY);
    clock: ["clock"] (INT8);
    fanout_batch: ["fanout_claim", "fanout_wanted", "fanout_jobs", "fanout_done", "fanout_answer"]
        (INT8, INT4, INT8);
    fanout_one:
        ["fanout_retry_claim", "fanout_wanted", "fanout_jobs", "fanout_done", "fanout_answer"]
        (INT8, INT4, INT8);
    fanout_start: ["fanout_claim", "fanout_wanted", "fanout_start", "fanout_done", "fanout_started"]
        (INT8, INT4, INT8, UUID, INT4_ARRAY, INT8);
    deleted_cancel: ["deleted_cancel"] (INT8, INT8);
    event_day_drop: ["event_day_drop"] (DATE, INT4);
    event_kept_forget: ["event_kept_forget"] (INT8, INT8);
    event_kept_look: ["event_kept_look"] (INT8);
    failure_claim: ["failure_claim"] (INT8, INT8, INT8_ARRAY);
    failure_suspect: ["failure_suspect"] (INT8, INT8, INT8);
    failure_note: ["failure_note"] (INT8, INT4, TEXT, INT4, INT8);
    failure_refund: ["failure_refund"] (INT8_ARRAY);
    fanned_out: ["fanned_out"] (UUID_ARRAY);
    filter_error: ["filter_error"] (JSONB);
    floor_probe: ["floor_probe"] ();
    floor_settle: ["floor_settle"] (INT8);
    handled: ["handled"] (UUID, TEXT);
    history_day_drop: ["history_day_drop"] (TEXT, DATE);
    lease_release: ["lease_release"] (INT8_ARRAY);
    rescue_jobs: ["rescue_jobs"] (INT4, INT8);
    partitions_make: ["partitions_make"] (INT4, INT8);
    partitions_old: ["partitions_old"] (INT8);
    periodic_delete: ["periodic_delete"] (TEXT);
    periodic_due: ["periodic_due"] (INT8);
    periodic_fire: ["periodic_fire"] (INT4, TIMESTAMPTZ, TIMESTAMPTZ_ARRAY, TIMESTAMPTZ, INT8);
    periodic_list: ["periodic_list"] (TEXT);
    periodic_note: ["periodic_note"] ();
    periodic_pause: ["periodic_pause"] (TEXT);
    periodic_put: ["periodic_put"]
        (TEXT, TEXT, TEXT, TEXT, JSONB, INT2, TEXT, INT4, INT4, TIMESTAMPTZ, INT8);
    periodic_resume: ["periodic_resume"] (TEXT, TIMESTAMPTZ);
    periodic_run: ["periodic_run"] (TEXT, INT8);
    record_key_forget: ["record_key_forget"] (INT8, INT8);
    registration_put: ["registration_put"] (UUID, INT4, TEXT_ARRAY);
    route_clear: ["route_clear"] (TEXT_ARRAY, INT4_ARRAY);
    route_insert: ["route_insert"] (TEXT_ARRAY, INT4_ARRAY);
    routing_bump: ["routing_bump"] ();
    routing_lock: ["routing_lock"] ();
    routing_share: ["routing_share"] (BOOL);
    session_bury: ["session_bury"] ();
    session_close: ["session_close"] (UUID);
    session_forget: ["session_forget"] ();
    session_live: ["session_live"] (UUID);
    session_open: ["session_open"] (UUID, TEXT, TEXT, BOOL, INT8);
    session_others: ["session_others"] (UUID, INT8);
    session_renew: ["session_renew"] (UUID, INT8);
    settle_completed: ["settle_completed"] (INT8_ARRAY, INT8_ARRAY, JSONB_ARRAY, UUID, INT8);
    settle_discarded: ["settle_discarded"]
        (INT8_ARRAY, INT8_ARRAY, TEXT_ARRAY, TEXT_ARRAY, UUID, INT8);
    settle_pending: ["settle_pending"]
        (INT8_ARRAY, INT8_ARRAY, INT8_ARRAY, TEXT_ARRAY, TEXT_ARRAY, UUID, INT8);
    subscription_delete: ["subscription_delete"] (TEXT);
    subscription_globs: ["subscription_globs"] (INT4, TEXT_ARRAY);
    subscription_insert: ["subscription_insert"]
        (TEXT, TEXT_ARRAY, TEXT, TEXT, TEXT, BOOL, TEXT, INT4, JSONB, INT8, INT2, INT4);
    subscription_list: ["subscription_list"] ();
    subscription_pause: ["subscription_pause"] (TEXT, BOOL);
    subscription_update: ["subscription_update"]
        (INT4, TEXT_ARRAY, TEXT, TEXT, TEXT, BOOL, TEXT, INT4, JSONB, INT8, INT2, INT4);
    doctor_backlog: ["doctor_backlog"] (INT8, INT8);
    doctor_connections: ["doctor_connections"] (TEXT);
    doctor_horizon: ["doctor_horizon"] ();
    doctor_partitions: ["doctor_partitions"] (INT8);
    doctor_privileges: ["doctor_privileges"] ();
    doctor_server: ["doctor_server"] ();
    doctor_sessions: ["doctor_sessions"] ();
    doctor_vacuum: ["doctor_vacuum"] ();
    event_find: ["event_find"] (UUID, INT8);
    event_jobs: ["event_jobs"] (INT8, TIMESTAMPTZ);
    privileges_missing: ["privileges_missing"] ();
    event_page_any: ["event_list", "event_page"] (INT8, TEXT, TEXT, TEXT, TEXT, TIMESTAMPTZ, INT8);
    event_page_failed: ["event_list_failed", "event_page"]
        (INT8, TEXT, TEXT, TEXT, TEXT, TIMESTAMPTZ, INT8);
    event_page_owed: ["event_list_owed", "event_page"]
        (INT8, TEXT, TEXT, TEXT, TEXT, TIMESTAMPTZ, INT8);
    event_read: ["event_read"] (INT8, TIMESTAMPTZ);
    event_requeue: ["event_requeue"] (INT8, INT8);
    event_skip: ["event_skip"] (INT8, INT8);
    job_attempts: ["job_attempts"] (INT8, INT8);
    job_cancel: ["job_cancel"] (INT8, TEXT, INT8);
    job_end: ["job_end"] (INT8);
    job_hurry: ["job_hurry"] (INT8, INT8);
    job_last_id: ["job_last_id"] ();
    job_one: ["job_one", "job_page"] (INT8, INT8);
    job_page: ["job_list", "job_page"] (INT8, INT8, TEXT_ARRAY, TEXT, BOOL, TEXT, TEXT, TEXT, INT8);
    job_revive: ["job_revive"] (INT8, INT8);
    subscription_lag: ["subscription_lag"] (INT8, INT8);
    unique_key_forget: ["unique_key_forget"] (INT8, INT8);
    type_declare: ["type_declare"] (TEXT_ARRAY, TEXT_ARRAY, TEXT_ARRAY, INT4_ARRAY);
    type_list: ["type_list"] ();
}
