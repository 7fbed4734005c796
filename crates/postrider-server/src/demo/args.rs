//! The demo's options and its help.
//!
//! How it fails: clap refuses what is out of range. Invariant: the options that only the demo
//! itself and its tests use are hidden.

/// What `--help` says below the options.
const MORE_HELP: &str = "\
A small shop records order.* events together with its rows. Three subscribers handle them in two
worker processes, one of which is killed in the middle. Then rows are compared, not counters: was
anything lost, invented or done twice?

Without a database URL a private PostgreSQL is started and removed again. With one, two schemas of
the demo's own are used and dropped, postrider_demo and postrider_demo_shop; schemas of that name
that the demo did not make are left alone.

Examples:
  postrider demo
  postrider demo --events 5000 --chaos --json
  postrider demo --keep --database-url postgres://localhost/scratch

Exit code: 0 all is well, 1 a promise was broken or the demo could not finish, 2 no PostgreSQL was
found or something is set up wrongly, 3 the database does not answer.";

/// Options of the demo.
#[derive(Debug, clap::Args)]
#[command(after_help = MORE_HELP)]
pub(crate) struct Args {
    /// Database to work in, such as postgres://user:password@localhost/shop.
    #[arg(long, value_name = "URL", env = "DATABASE_URL", hide_env_values = true)]
    pub(super) database_url: Option<String>,
    /// Events to record; the demo ends when all are handled [default: 2000, unhurried].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    pub(super) events: Option<u32>,
    /// Events to record in a second, at most [default: so that recording takes 10 seconds].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) rate: Option<u32>,
    /// Kill up to three times, and fail unless jobs were running then and were rescued.
    #[arg(long)]
    pub(super) chaos: bool,
    /// Connections that record.
    #[arg(long, value_name = "N", default_value_t = 4,
          value_parser = clap::value_parser!(u32).range(1..=32))]
    pub(super) producers: u32,
    /// Decides which orders come, which transactions roll back and which attempts fail.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) seed: u64,
    /// Keep the schemas, or the private server until Ctrl-C, to look around.
    #[arg(long)]
    pub(super) keep: bool,
    /// Print the verdict as one line of JSON.
    #[arg(long)]
    pub(super) json: bool,
    /// Give up after this time [default: a minute, and one more for every 6000 events].
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) give_up_after: Option<u32>,
    /// Judge again what a run with --keep left.
    #[arg(long, hide = true)]
    pub(super) verdict_only: bool,
    /// Be the worker of this name: the demo starts its workers so.
    #[arg(long, hide = true, value_name = "NAME")]
    pub(super) worker: Option<String>,
}
