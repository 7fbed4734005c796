//! `postrider jobs kinds` and `declare`.
//!
//! How it fails: exit code 2 for a value that breaks a rule, 1 for a name that is a subscription's
//! or a version that is too low. Invariant: a lower version never overwrites.

use std::process::ExitCode;

use postrider::admin::KindDeclared;
use postrider::{Backoff, Kind, Policy, Priority};

use crate::cli::context::Context;
use crate::cli::events::answered;
use crate::cli::fail::Failure;
use crate::cli::output::{Table, span};
use crate::cli::subscriptions::parse_backoff;

pub(super) const LIST_HELP: &str = "\
A kind is paused, resumed and deleted as a subscription of its name.

Examples:
  postrider jobs kinds
  postrider subscriptions pause mail.receipt";

const DECLARE_HELP: &str = "\
The programs that handle a kind declare it themselves when they start.

Examples:
  postrider jobs declare mail.receipt
  postrider jobs declare report.build --queue slow --max-attempts 5 --backoff 5s,5m,2h";

/// The kind to declare.
#[derive(Debug, clap::Args)]
#[command(after_help = DECLARE_HELP)]
pub(in crate::cli) struct DeclareArgs {
    /// Its unique name: letters, digits, `.`, `_` and `-`.
    name: String,
    /// The queue whose limit its jobs share.
    #[arg(long, default_value = "default")]
    queue: String,
    /// How often a job is tried before it is discarded, 1 to 1000.
    #[arg(long, value_name = "N", default_value_t = 20)]
    max_attempts: i32,
    /// How long one attempt may take, in milliseconds, 1 to 86400000.
    #[arg(long, value_name = "MS", default_value_t = 60_000)]
    timeout_ms: i64,
    /// Which of two due jobs goes first: high, normal, low or bulk.
    #[arg(long, default_value = "normal")]
    priority: Priority,
    /// The waits between attempts: a list such as 5s,5m,2h whose last one repeats, or
    /// FIRST..LONGEST, which doubles. Units: ms, s, m, h, d.
    #[arg(long, value_name = "WAITS", default_value = "2s..6h", value_parser = parse_backoff)]
    backoff: Backoff,
    /// The version of the declaration; a lower one never overwrites.
    #[arg(long, value_name = "N", default_value_t = 1)]
    version: i32,
}

pub(super) async fn declare(args: DeclareArgs, context: &Context) -> Result<ExitCode, Failure> {
    let name = args.name.clone();
    let policy = Policy {
        queue: args.queue,
        max_attempts: args.max_attempts,
        backoff: args.backoff,
        timeout_ms: args.timeout_ms,
        priority: args.priority,
    };
    policy.check().map_err(Failure::usage)?;
    let kind = Kind::<()>::named(args.name).map_err(Failure::usage)?;
    let kind = kind.policy(policy).version(args.version);
    let result = context.admin().await?.declare_kind(kind).await?;
    let told = match result {
        KindDeclared::Declared => Ok(format!("declared {name}")),
        KindDeclared::Unchanged => Ok(format!("{name} is declared like this already")),
        KindDeclared::NewerStands(version) => {
            Err(Failure::operation(format!("{name} stands at version {version}"))
                .hint(format!("to overwrite it, give --version {version} or more")))
        }
    };
    answered(context, &result, told)
}

pub(super) async fn list(context: &Context) -> Result<ExitCode, Failure> {
    let kinds = context.admin().await?.kinds().await?;
    context.output.print(&kinds, |kinds| {
        let head = ["NAME", "STATE", "WAITING", "OLDEST", "QUEUE", "TRIES", "VERSION"];
        let mut table = Table::new(context.output, &head);
        for info in kinds {
            table.row([
                info.declared.name.clone(),
                if info.paused_at.is_some() { "paused" } else { "active" }.to_owned(),
                info.lag.waiting.to_string(),
                info.lag.oldest_age_ms.map(span).unwrap_or_default(),
                info.declared.policy.queue.clone(),
                info.declared.policy.max_attempts.to_string(),
                info.declared.version.to_string(),
            ]);
        }
        table.render("no kind is declared yet; see: postrider jobs declare --help")
    })?;
    Ok(ExitCode::SUCCESS)
}
