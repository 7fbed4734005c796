//! `postrider types`: declares event types and lists them.
//!
//! How it fails: exit code 2 for a name that breaks the rules, 1 when a declaration of a higher
//! version stands. Invariant: declaring the same again changes nothing.

use std::process::ExitCode;

use clap::builder::NonEmptyStringValueParser;
use postrider::admin::{Declaration, DeclaredType};
use postrider::{EventType, Exposure};

use super::context::{self, Context};
use super::fail::Failure;
use super::output::{Table, time};

const DECLARE_HELP: &str = "\
An event can be recorded once its type is declared: a dotted noun, then a verb.
Declaring it again keeps the description and the exposure, unless the command
gives others; of two that differ, the higher version stands.

Examples:
  postrider types declare order.placed --description 'An order was placed.'
  postrider types declare order.paid order.shipped --external
  postrider types declare order.paid --internal  take it back: only handlers get it";

const LIST_HELP: &str = "\
Examples:
  postrider types list
  postrider types list --json | jq -r '.[].name'";

/// What to do about types.
#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// Declare one or more types, all or none.
    Declare(DeclareArgs),
    /// List the declared types.
    #[command(after_help = LIST_HELP)]
    List,
}

/// The types to declare.
#[derive(Debug, clap::Args)]
#[command(after_help = DECLARE_HELP)]
pub(super) struct DeclareArgs {
    /// The types, such as order.placed: segments of letters, digits, _ and -.
    #[arg(required = true, value_name = "NAME", value_parser = context::event_type)]
    types: Vec<EventType>,
    /// Let events of these types leave the instance: webhooks, brokers and pull clients may have
    /// them. Without it a new type is internal and an earlier exposure stays.
    #[arg(long)]
    external: bool,
    /// Keep events of these types inside: only handlers and `tail` may have them.
    #[arg(long, conflicts_with = "external")]
    internal: bool,
    /// What such an event tells, in a sentence. Without it an earlier description stays.
    #[arg(long, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    description: Option<String>,
    /// The version of the declaration; raise it when you change one.
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(i32).range(1..))]
    version: i32,
}

pub(super) async fn run(command: Command, context: &Context) -> Result<ExitCode, Failure> {
    match command {
        Command::Declare(args) => declare(args, context).await,
        Command::List => list(context).await,
    }
}

async fn declare(args: DeclareArgs, context: &Context) -> Result<ExitCode, Failure> {
    let DeclareArgs { types, external, internal, description, version } = args;
    let admin = context.admin().await?;
    let known = admin.types().await?;
    let types: Vec<EventType> = types
        .into_iter()
        .map(|declared| {
            // Without a new description or exposure the old one stays: repeating a command must
            // neither erase the one nor withdraw the other.
            let kept = known.iter().find(|info| info.name == declared.name.as_str());
            let was_external = kept.is_some_and(|info| info.exposure == Exposure::External);
            let kept = kept.map(|info| info.description.clone()).unwrap_or_default();
            let declared = declared.version(version);
            let declared = declared.description(description.clone().unwrap_or(kept));
            if external || (was_external && !internal) { declared.external() } else { declared }
        })
        .collect();
    let declared = admin.declare_types(&types).await?;
    context.output.print(&declared, |declared| declared.iter().map(told).collect())?;
    let outdated: Vec<&DeclaredType> =
        declared.iter().filter(|declared| declared.result == Declaration::Outdated).collect();
    match outdated.first() {
        None => Ok(ExitCode::SUCCESS),
        Some(first) => {
            let (name, stands) = (&first.info.name, first.info.version);
            Err(Failure::operation(format!("`{name}` stands at version {stands}, not {version}"))
                .hint(format!("to change it, give --version {stands} or higher")))
        }
    }
}

fn told(declared: &DeclaredType) -> String {
    let DeclaredType { result, info } = declared;
    let exposure = info.exposure.as_str();
    match result {
        Declaration::Declared => format!("declared {} ({exposure})\n", info.name),
        Declaration::Unchanged => format!("{} was declared like this already\n", info.name),
        Declaration::Outdated => format!("{} stays at version {}\n", info.name, info.version),
    }
}

async fn list(context: &Context) -> Result<ExitCode, Failure> {
    let types = context.admin().await?.types().await?;
    context.output.print(&types, |types| {
        let head = ["TYPE", "EXPOSURE", "VERSION", "DECLARED", "DESCRIPTION"];
        let mut table = Table::new(context.output, &head);
        for info in types {
            let exposure = match info.exposure {
                Exposure::Internal => "internal",
                Exposure::External => "external",
            };
            table.row([
                info.name.clone(),
                exposure.to_owned(),
                info.version.to_string(),
                time(info.declared_at),
                info.description.clone(),
            ]);
        }
        table.render("no type is declared yet; see: postrider types declare --help")
    })?;
    Ok(ExitCode::SUCCESS)
}
