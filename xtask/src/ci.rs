//! `cargo xtask ci`: everything that must pass before a change is merged.
//!
//! The cheapest checks come first, and the first failure ends the run. The tests come last, so that
//! their result is the last thing one reads.

use crate::process::{announce, cargo, run as run_command, run_quietly};
use crate::{test, tidy};
use std::process::Stdio;

/// How to get cargo-deny, for those who do not have it.
const GET_CARGO_DENY: &str = "cargo-deny is not installed, so licences, bans, sources and \
    advisories of the dependencies are NOT checked. Get it by `cargo install --locked cargo-deny`.";

/// Runs every check.
///
/// # Errors
///
/// That of the first check which fails.
pub(crate) async fn run() -> anyhow::Result<()> {
    run_command(cargo(["fmt", "--all", "--check"])).await?;
    tidy::run().await?;
    let clippy = ["clippy", "--workspace", "--all-targets", "--all-features", "--locked"];
    run_command(cargo(clippy.into_iter().chain(["--", "-D", "warnings"]))).await?;
    dependencies().await?;
    let mut doc = cargo(["doc", "--workspace", "--no-deps", "--all-features"]);
    doc.env("RUSTDOCFLAGS", "-D warnings");
    run_command(doc).await?;
    test::run(&[]).await
}

/// Checks the dependencies by `deny.toml`.
async fn dependencies() -> anyhow::Result<()> {
    if !succeeds(&["deny", "--version"]).await? {
        announce(GET_CARGO_DENY);
        return Ok(());
    }
    let check = ["deny", "check", "--hide-inclusion-graph"];
    run_command(cargo(check.into_iter().chain(["licenses", "bans", "sources"]))).await?;
    // The advisories are in a git repository, which cannot be fetched everywhere. That must not
    // fail a change, but it must be seen.
    if succeeds(&["deny", "fetch", "db"]).await? {
        return run_command(cargo(check.into_iter().chain(["--disable-fetch", "advisories"])))
            .await;
    }
    announce("the database of advisories cannot be fetched, so advisories are NOT checked");
    Ok(())
}

/// Whether a cargo command succeeds. What it prints is of no interest.
async fn succeeds(arguments: &[&str]) -> anyhow::Result<bool> {
    let mut command = cargo(arguments.iter().copied());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    Ok(run_quietly(command).await?.success())
}
