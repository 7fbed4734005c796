//! The process which owns a server is killed, and the server must not stay.
//!
//! The owner is this test program itself, started once more to run only the test
//! [`an_owner_waits_to_be_killed`], which does nothing unless it is told to.

use crate::{Scratch, connect, count};
use nix::sys::signal::kill;
use nix::unistd::Pid;
use postrider_embedded::{PrivateServer, ServerOptions};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Tells the owner in which directory to run the server; empty for a temporary one.
const DIRECTORY: &str = "POSTRIDER_TEST_OWNER_DIRECTORY";

#[tokio::test]
async fn an_owner_waits_to_be_killed() {
    let Ok(directory) = std::env::var(DIRECTORY) else {
        return;
    };
    let mut options = ServerOptions::fast_and_unsafe();
    if !directory.is_empty() {
        options = options.directory(directory);
    }
    let server = PrivateServer::start(options).await.unwrap();
    let client = connect(&server.url()).await.unwrap();
    client.batch_execute("create table t as select 1 as n").await.unwrap();
    println!("\nowner {} {}", server.pid().unwrap(), server.data_dir().display());
    std::future::pending::<()>().await;
}

struct Owner {
    process: Child,
    server: i32,
    data: PathBuf,
}

fn start_owner(directory: &Path) -> Owner {
    let mut process = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "owner::an_owner_waits_to_be_killed", "--nocapture"])
        .env(DIRECTORY, directory)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(process.stdout.take().unwrap()).lines();
    let line = lines.map_while(Result::ok).find(|line| line.starts_with("owner ")).unwrap();
    let mut words = line.split(' ').skip(1);
    let server = words.next().unwrap().parse().unwrap();
    Owner { process, server, data: words.next().unwrap().into() }
}

impl Owner {
    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    fn server_runs(&self) -> bool {
        kill(Pid::from_raw(self.server), None).is_ok()
    }
}

fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !done() {
        assert!(Instant::now() < deadline, "it did not happen within 20 s that {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn the_server_of_a_killed_owner_goes_away_with_its_temporary_data() {
    let mut owner = start_owner(Path::new(""));
    let directory = owner.data.parent().unwrap().to_path_buf();
    assert!(owner.server_runs());
    assert!(directory.exists());
    owner.kill();
    wait_for("the server ends", || !owner.server_runs());
    wait_for("its directory is removed", || !directory.exists());
}

#[tokio::test]
async fn after_a_killed_owner_its_directory_can_be_used_at_once() {
    let scratch = Scratch::new("orphaned");
    let mut owner = start_owner(scratch.path());
    owner.kill();
    let server = PrivateServer::start(scratch.options()).await.unwrap();
    let client = connect(&server.url()).await.unwrap();
    assert_eq!(count(&client, "select count(*) from t").await, 1);
}
