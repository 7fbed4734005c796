//! `postrider up`: a development server on a private PostgreSQL whose data are kept.
//!
//! How it fails: exit code 2 when there is no PostgreSQL to start or the directory does not serve;
//! the message says what to install or to change. Invariant: the server never outlives this
//! process.

use std::path::PathBuf;
use std::process::ExitCode;

use postrider_embedded::{PrivateServer, ServerOptions, StartError};

use super::context::Context;
use super::fail::Failure;
use super::serve::{self, EngineArgs};
use super::signals::Signals;

const AFTER_HELP: &str = "\
Starts PostgreSQL on 127.0.0.1 with a random password, installs the schema,
prints the URL, and runs the relay until told to stop. The next `up` in the same
directory finds everything again. DATABASE_URL is not used, and --database-url
is refused: `postrider serve` runs the relay on a database of yours.

Examples:
  postrider up
  postrider up --data-dir ./dev-data --port 54321
  postrider up --json > up.json &            # the URL is in it, for scripts";

/// Where to keep the data.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Args {
    /// The directory for the data, the password and the log. [default: postrider/up in
    /// $XDG_DATA_HOME or ~/.local/share; /var/lib/postrider/up for root]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// The port on 127.0.0.1. [default: any free one]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    #[command(flatten)]
    engine: EngineArgs,
}

pub(super) async fn run(args: Args, context: &Context) -> Result<ExitCode, Failure> {
    let signals = Signals::new();
    let directory = match args.data_dir {
        Some(directory) => directory,
        None => default_directory()?,
    };
    let mut options = ServerOptions::new().directory(&directory);
    if let Some(port) = args.port {
        options = options.port(port);
    }
    eprintln!("starting PostgreSQL in {}", directory.display());
    let server = PrivateServer::start(options).await.map_err(not_started)?;
    let url = server.url();
    let context = context.with_url(url.clone());
    let handle = match serve::start(&args.engine, true, &context).await {
        Ok(handle) => handle,
        Err(failure) => {
            // The first failure is the one to tell.
            let _ = server.stop().await;
            return Err(failure);
        }
    };
    let said = serve::ready(&context, Some(&url), &format!("DATABASE_URL={url}"));
    let ended = match said {
        Ok(()) => handle.run_until(signals.first()).await.map_err(Failure::from),
        Err(failure) => {
            handle.shutdown().await;
            Err(failure)
        }
    };
    server.stop().await.map_err(Failure::operation)?;
    ended.map(|()| ExitCode::SUCCESS)
}

/// Refuses a database: silently starting another one would surprise whoever named it.
pub(super) fn needs_no_database() -> Failure {
    Failure::usage("`up` starts a PostgreSQL of its own and takes no --database-url")
        .hint("to run the relay on that database: postrider serve --migrate --database-url URL")
}

/// Where the data are kept unless somebody says otherwise.
fn default_directory() -> Result<PathBuf, Failure> {
    if nix::unistd::geteuid().is_root() {
        // The server runs as another user, who cannot enter the home of root.
        return Ok(PathBuf::from("/var/lib/postrider/up"));
    }
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let share = set("XDG_DATA_HOME").map(PathBuf::from);
    let share = share.or_else(|| Some(PathBuf::from(set("HOME")?).join(".local/share")));
    share.map(|share| share.join("postrider/up")).ok_or_else(|| {
        Failure::usage("there is no home directory to keep the data in").hint("give --data-dir DIR")
    })
}

fn not_started(error: StartError) -> Failure {
    let mut message = error.to_string();
    let mut below = std::error::Error::source(&error);
    while let Some(cause) = below {
        message.push_str(&format!(": {cause}"));
        below = cause.source();
    }
    Failure::usage(message)
}
