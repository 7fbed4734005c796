//! `postrider verify`: whether a webhook's signature is right, and why not.
//!
//! How it fails: exit code 1 with the reason when it does not verify, 2 for a secret that cannot be
//! one or a body that is too large. Invariants: the body is taken byte for byte; no secret is
//! printed.

use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use postrider_webhook::{InvalidSecret, Now, Refusal, VerifyingSecret, verify};
use serde_json::json;
use tokio::io::AsyncReadExt as _;

use super::context::Context;
use super::fail::Failure;

/// The largest body that is read.
const BODY_BYTES_MAX: u64 = 16 << 20;

const AFTER_HELP: &str = "\
The body is standard input, byte for byte as it came: JSON that was parsed and
written again, or a line end added by echo, is another body. whsec_ verifies
signatures v1, whpk_ (or whsk_) verifies v1a; of several signatures one must fit.
A secret on the command line shows in the list of processes; the environment
variable does not.

Exit codes: 0 it verifies, 1 it does not (the reason is on standard error), 2 the
secret cannot be one, or the body is larger than 16 MiB.

Examples:
  export POSTRIDER_WEBHOOK_SECRET=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw
  printf '{\"test\": 2432232314}' | postrider verify --any-time \\
    --id msg_p5jXN8AQM9LWM0D4loKWxJek --timestamp 1614265330 \\
    --signature v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";

/// What came with the message.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Args {
    /// The endpoint's secret or public key: whsec_…, whpk_… or whsk_….
    #[arg(long, env = "POSTRIDER_WEBHOOK_SECRET", hide_env_values = true)]
    secret: String,
    /// The header webhook-id.
    #[arg(long, allow_hyphen_values = true)]
    id: String,
    /// The header webhook-timestamp.
    #[arg(long, value_name = "SECONDS", allow_hyphen_values = true)]
    timestamp: String,
    /// The header webhook-signature, with all its signatures.
    #[arg(long, allow_hyphen_values = true)]
    signature: String,
    /// Accept any timestamp, to look into a message of the past. Without it, 300 s either way.
    #[arg(long)]
    any_time: bool,
}

pub(super) async fn run(args: Args, context: &Context) -> Result<ExitCode, Failure> {
    // A parser of clap's would repeat the text, which may be a secret with a slip in it.
    let secret = VerifyingSecret::parse(args.secret.trim()).map_err(unusable)?;
    let body = body().await?;
    let now = match args.any_time {
        true => Now::AnyTime,
        false => Now::At(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_secs())),
    };
    match verify(&[secret], &args.id, &args.timestamp, &args.signature, &body, now) {
        Ok(verified) => {
            let version = verified.version;
            let answer = json!({ "verified": true, "version": version });
            context.output.print(&answer, |_| format!("it verifies ({version})\n"))?;
            Ok(ExitCode::SUCCESS)
        }
        Err(refusal) => {
            if context.output.json {
                let reason = (refusal.code(), refusal.to_string());
                let answer = json!({ "verified": false, "code": reason.0, "reason": reason.1 });
                context.output.print(&answer, |_| String::new())?;
            }
            Err(refused(refusal))
        }
    }
}

async fn body() -> Result<Vec<u8>, Failure> {
    let mut body = Vec::new();
    let read = tokio::io::stdin().take(BODY_BYTES_MAX + 1).read_to_end(&mut body).await;
    let read = read.map_err(|error| Failure::operation(format!("reading failed: {error}")))?;
    match read as u64 > BODY_BYTES_MAX {
        true => Err(Failure::usage("the body is larger than 16 MiB")),
        false => Ok(body),
    }
}

fn unusable(invalid: InvalidSecret) -> Failure {
    Failure::usage(invalid)
        .hint("it looks like whsec_… (v1), or whpk_… (v1a), with base64 after it")
}

fn refused(refusal: Refusal) -> Failure {
    let failure = Failure::operation(format!("it does not verify: {refusal}"));
    match refusal {
        Refusal::TooOld(_) | Refusal::TooNew(_) => {
            failure.hint("look at the clocks; for a message of the past: --any-time")
        }
        Refusal::TrailingNewline => failure.hint("use printf, or curl --data-binary"),
        Refusal::Mismatch => failure.hint("give the body as it came, before anything parsed it"),
        Refusal::OtherVersion { .. } => failure.hint("whsec_ is for v1, whpk_ for v1a"),
        _ => failure,
    }
}
