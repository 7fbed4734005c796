//! `postrider doctor`: looks for everything that keeps Postrider from doing well.
//!
//! How it fails: exit code 1 when something does not work, 3 when the database does not answer.
//! Invariant: it changes nothing.

use std::process::ExitCode;
use std::time::Duration;

use postrider::admin::{self, Finding, Level, Limits, Report};

use super::context::Context;
use super::fail::{FAILED, Failure};
use super::output::{Output, safe};

const AFTER_HELP: &str = "\
It looks at the server, the line to it, the schema, the processes, the backlog and the upkeep of the
tables, and rings once to measure how long a wake-up takes. Each finding is ok, a warning (it works,
and somebody should look) or a problem (something does not work; exit code 1).

Examples:
  postrider doctor
  postrider doctor --held 0        name everybody who holds vacuum back, however shortly
  postrider doctor --json | jq '.findings[] | select(.level != \"ok\")'";

/// The widest word for a level.
const LEVEL_WIDTH: usize = 7;

/// How to look.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Args {
    /// From how many seconds on an open snapshot that holds vacuum back is a warning.
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    held: u32,
}

pub(super) async fn run(args: Args, context: &Context) -> Result<ExitCode, Failure> {
    let limits = Limits { held: Duration::from_secs(args.held.into()) };
    let report = admin::examine(&context.database()?, &context.schema, limits).await?;
    context.output.print(&report, |report| told(report, context.output))?;
    Ok(match report.level {
        Level::Ok | Level::Warning => ExitCode::SUCCESS,
        Level::Problem => ExitCode::from(FAILED),
    })
}

fn word(level: Level) -> &'static str {
    match level {
        Level::Ok => "ok",
        Level::Warning => "warning",
        Level::Problem => "problem",
    }
}

fn told(report: &Report, output: Output) -> String {
    let width = report.findings.iter().map(|finding| finding.check.len()).max().unwrap_or(0);
    let mut text: String =
        report.findings.iter().map(|finding| line(finding, width, output)).collect();
    let count = |level| report.findings.iter().filter(|found| found.level == level).count();
    let (warnings, problems) = (count(Level::Warning), count(Level::Problem));
    let plural = |count: usize| if count == 1 { "" } else { "s" };
    text.push_str(&match (problems, warnings) {
        (0, 0) => "\nall is well\n".to_owned(),
        (0, _) => format!("\nit works, with {warnings} warning{}\n", plural(warnings)),
        _ => format!(
            "\n{problems} problem{}, {warnings} warning{}\n",
            plural(problems),
            plural(warnings)
        ),
    });
    text
}

/// One finding: level, what was looked at, what was found; below it what to do.
fn line(finding: &Finding, width: usize, output: Output) -> String {
    let word = word(finding.level);
    // Colours take no columns, so the word is padded outside of them.
    let gap = " ".repeat(LEVEL_WIDTH - word.len());
    let (check, found) = (finding.check, safe(&finding.found));
    let mut text = format!("{}{gap}  {check:<width$}  {found}\n", output.word(word));
    if let Some(advice) = &finding.advice {
        let indent = " ".repeat(LEVEL_WIDTH);
        text.push_str(&format!("{indent}  {:<width$}  -> {}\n", "", safe(advice)));
    }
    text
}
