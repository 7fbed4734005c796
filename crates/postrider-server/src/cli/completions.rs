//! `postrider completions`: the shell completes commands and options.
//!
//! How it fails: it does not; an unknown shell is refused by clap. Invariant: the completions are
//! made from the same description as the parser.

use std::io::Write as _;
use std::process::ExitCode;

use clap::CommandFactory as _;
use clap_complete::Shell;

const AFTER_HELP: &str = "\
Examples:
  bash   postrider completions bash > ~/.local/share/bash-completion/completions/postrider
  zsh    postrider completions zsh > ~/.zfunc/_postrider      (with ~/.zfunc in $fpath)
  fish   postrider completions fish > ~/.config/fish/completions/postrider.fish";

/// Which shell.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Args {
    /// The shell to write completions for.
    shell: Shell,
}

pub(super) fn run(args: &Args) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut super::Cli::command(), "postrider", &mut script);
    // A reader that has closed the pipe has seen enough.
    let _ = std::io::stdout().write_all(&script);
    ExitCode::SUCCESS
}
