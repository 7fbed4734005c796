//! `postrider doctor`: looks for everything that keeps Postrider from doing well.
//!
//! How it fails: exit code 1 when something does not work, 3 when the database does not answer.
//! Invariant: it changes nothing.

use std::process::ExitCode;

use postrider::admin::{self, Report, Verdict};

use super::context::Context;
use super::fail::{FAILED, Failure};
use super::output::{Output, safe};

const AFTER_HELP: &str = "\
Examples:
  postrider doctor
  postrider doctor --json | jq '.findings[] | select(.verdict != \"ok\")'";

/// How to look.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Args {}

pub(super) async fn run(_args: Args, context: &Context) -> Result<ExitCode, Failure> {
    let report = admin::examine(&context.database()?, &context.schema).await?;
    context.output.print(&report, |report| told(report, context.output))?;
    Ok(match report.verdict {
        Verdict::Ok | Verdict::Warn => ExitCode::SUCCESS,
        Verdict::Fail => ExitCode::from(FAILED),
    })
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Ok => "ok",
        Verdict::Warn => "warn",
        Verdict::Fail => "fail",
    }
}

fn told(report: &Report, output: Output) -> String {
    let width = report.findings.iter().map(|finding| finding.check.len()).max().unwrap_or(0);
    let mut text = String::new();
    for finding in &report.findings {
        let word = word(finding.verdict);
        // Colours take no columns, so the word is padded outside of them.
        let gap = " ".repeat(4 - word.len());
        let (check, found) = (finding.check, safe(&finding.found));
        text.push_str(&format!("{}{gap}  {check:<width$}  {found}\n", output.word(word)));
        if let Some(advice) = &finding.advice {
            text.push_str(&format!("      {:<width$}  -> {}\n", "", safe(advice)));
        }
    }
    let count = |verdict| report.findings.iter().filter(|found| found.verdict == verdict).count();
    let (warnings, failures) = (count(Verdict::Warn), count(Verdict::Fail));
    let plural = |count: usize| if count == 1 { "" } else { "s" };
    text.push_str(&match (failures, warnings) {
        (0, 0) => "\nall is well\n".to_owned(),
        (0, _) => format!("\nit works, with {warnings} warning{}\n", plural(warnings)),
        _ => format!(
            "\n{failures} failure{}, {warnings} warning{}\n",
            plural(failures),
            plural(warnings)
        ),
    });
    text
}
