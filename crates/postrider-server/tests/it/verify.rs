//! `postrider verify`: needs no database; says why a signature does not verify.

use std::process::Stdio;

use tokio::io::AsyncWriteExt as _;

use crate::program::{Ended, command, ended};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const PUBLIC: &str = "whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4=";
const V1: &str = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
const V1A: &str =
    "v1a,hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw/enGzPCXe5BdqzCInXqYXFymVJaA7AZdpXwVLPo3mNl8EM+m7TBAg==";
const BODY: &[u8] = br#"{"test": 2432232314}"#;

/// Runs it with the secret in the environment and `body` on standard input.
async fn verify(secret: &str, signature: &str, more: &[&str], body: &[u8]) -> Ended {
    let id = ["verify", "--id", "msg_p5jXN8AQM9LWM0D4loKWxJek", "--timestamp", "1614265330"];
    let arguments = [&id, &["--signature", signature][..], more].concat();
    let mut command = command(&arguments);
    command.env("POSTRIDER_WEBHOOK_SECRET", secret).stdin(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // A run that fails early reads nothing more.
    let _ = stdin.write_all(body).await;
    drop(stdin);
    ended(child.wait_with_output().await.unwrap())
}

#[tokio::test]
async fn verify_accepts_either_version_and_a_secret_from_the_environment_or_the_command_line() {
    verify(SECRET, V1, &["--any-time"], BODY).await.code(0).says("it verifies (v1)");
    verify(PUBLIC, V1A, &["--any-time"], BODY).await.code(0).says("it verifies (v1a)");
    let flag = ["--any-time", "--secret", SECRET, "--json"];
    let answer = verify("", V1, &flag, BODY).await.code(0).json();
    assert_eq!(answer, serde_json::json!({ "verified": true, "version": "v1" }));
}

#[tokio::test]
async fn verify_says_why_not() {
    let any = &["--any-time"][..];
    verify(SECRET, V1, &[], BODY).await.code(1).complains("too old").complains("--any-time");
    verify(SECRET, V1, any, b"{}").await.code(1).complains("another secret, or the id");
    verify(SECRET, V1A, any, BODY).await.code(1).complains("no signature is of version v1,");
    verify(SECRET, "v1,g0hM", any, BODY).await.code(1).complains("cut short");
    let body = [BODY, b"\n"].concat();
    verify(SECRET, V1, any, &body).await.code(1).complains("no line end").complains("printf");
    let answer = verify(SECRET, V1, &["--any-time", "--json"], b"\xff\0").await.code(1).json();
    assert_eq!(answer["verified"], false);
    assert_eq!(answer["code"], "mismatch");
}

#[tokio::test]
async fn verify_refuses_what_is_no_secret_without_repeating_it() {
    let slip = SECRET.replace("whsec_", "whsek_");
    let run = verify(&slip, V1, &["--any-time"], BODY).await.code(2).complains("begins with none");
    assert!(!run.err.contains("MfKQ"), "{run:?}");
}

#[tokio::test]
async fn verify_reads_no_endless_body() {
    let body = vec![b' '; (16 << 20) + 1];
    verify(SECRET, V1, &["--any-time"], &body).await.code(2).complains("larger than 16 MiB");
    verify(SECRET, V1, &["--any-time"], &body[1..]).await.code(1).complains("another secret");
}
