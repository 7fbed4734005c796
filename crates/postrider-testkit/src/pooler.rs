//! A PgBouncer in transaction mode.
//!
//! Invariants: it takes every user and logs in at the server as the one in the URL; it ends with
//! the value, and its files too.

use crate::{url, wait_until};
use std::io::Write as _;
use std::net::TcpListener;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tokio::net::TcpStream;

/// Where Debian keeps the program, outside of the PATH of most users.
const PLACES: [&str; 3] = ["pgbouncer", "/usr/sbin/pgbouncer", "/usr/local/sbin/pgbouncer"];

/// How long it may take to start; it takes some milliseconds.
const START_LIMIT: Duration = Duration::from_secs(20);

/// A PgBouncer in transaction mode between a program and the server of a URL.
///
/// Each transaction gets whatever server connection is free, so that nothing that belongs to a
/// session lasts: no LISTEN, no session lock, no prepared statement unless PgBouncer keeps it.
///
/// ```no_run
/// use postrider_testkit::{Pooler, TestDatabase};
///
/// # async fn example() {
/// let database = TestDatabase::create().await;
/// let mut pooler = Pooler::start(&database.url(), 2, 0).await;
/// let url = pooler.url_through(&database.url());
/// // … start the program on `url` …
/// pooler.restart().await; // every connection breaks
/// # }
/// ```
#[derive(Debug)]
pub struct Pooler {
    directory: PathBuf,
    port: u16,
    child: Child,
}

impl Pooler {
    /// Starts one in front of the server of `server_url`, with `server_connections` to each of its
    /// databases, from 1 on. `prepared_statements` is how many it keeps for each connection, 0 for
    /// none; versions before 1.21 keep none.
    ///
    /// # Panics
    ///
    /// When PgBouncer is not installed or does not come up; the message says what to do.
    pub async fn start(
        server_url: &str,
        server_connections: u16,
        prepared_statements: u16,
    ) -> Self {
        let word = crate::database::random_word();
        let directory = std::env::temp_dir().join(format!("postrider-pooler-{word}"));
        std::fs::create_dir(&directory).expect("the temporary directory can be written");
        let port = free_port();
        let address = url::address_of(server_url);
        let (host, server_port) = address.rsplit_once(':').expect("an address has a port");
        let (user, password) = url::credentials_of(server_url);
        let kept = match keeps_statements() {
            true => format!("max_prepared_statements = {prepared_statements}\n"),
            false => String::new(),
        };
        let settings = format!(
            "[databases]\n* = host={host} port={server_port} user={user} password={password}\n\
             [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n\
             auth_type = any\npool_mode = transaction\ndefault_pool_size = {server_connections}\n\
             max_client_conn = 500\nserver_login_retry = 1\nlog_connections = 0\n\
             log_disconnections = 0\n{kept}",
        );
        let file = directory.join("pgbouncer.ini");
        let mut file = std::fs::File::create(file).expect("a new directory can be written");
        file.write_all(settings.as_bytes()).expect("a new file can be written");
        let child = launch(&directory);
        let mut pooler = Self { directory, port, child };
        pooler.wait_ready().await;
        pooler
    }

    /// The same PostgreSQL URL, with the address of the pooler.
    ///
    /// # Panics
    ///
    /// When `url` is no URL.
    pub fn url_through(&self, url: &str) -> String {
        url::with_address(url, &format!("127.0.0.1:{}", self.port))
    }

    /// Kills it and starts it again at the same address: every connection through it breaks.
    ///
    /// # Panics
    ///
    /// When it does not come up again.
    pub async fn restart(&mut self) {
        self.stop();
        self.child = launch(&self.directory);
        self.wait_ready().await;
    }

    fn stop(&mut self) {
        // Both fail only when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    async fn wait_ready(&mut self) {
        let (port, directory, child) = (self.port, &self.directory, &mut self.child);
        wait_until("PgBouncer accepts connections", START_LIMIT, async || {
            if let Ok(Some(status)) = child.try_wait() {
                let log = std::fs::read_to_string(directory.join("log")).unwrap_or_default();
                panic!("PgBouncer ended with {status}: {log}");
            }
            TcpStream::connect(("127.0.0.1", port)).await.map_err(|error| error.to_string())
        })
        .await;
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        self.stop();
        // What cannot be removed lies in the temporary directory.
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn launch(directory: &std::path::Path) -> Child {
    let log = std::fs::File::create(directory.join("log")).expect("the directory is ours");
    let mut command = Command::new(program());
    command.arg(directory.join("pgbouncer.ini")).stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(Stdio::from(log));
    if nix::unistd::geteuid().is_root() {
        // It refuses to run as root. Its settings can be read by everybody.
        let nobody = nix::unistd::User::from_name("nobody").ok().flatten();
        let nobody = nobody.expect("every system has the user nobody");
        command.uid(nobody.uid.as_raw()).gid(nobody.gid.as_raw());
    }
    command.spawn().expect("PgBouncer was found a moment ago")
}

/// The program.
fn program() -> &'static str {
    let runs = |place: &&str| {
        let asked = Command::new(place).arg("--version").stdout(Stdio::null()).status();
        asked.is_ok_and(|status| status.success())
    };
    PLACES.into_iter().find(runs).unwrap_or_else(|| {
        panic!("these tests need PgBouncer: install the package pgbouncer, which need not run")
    })
}

/// Whether this version can keep prepared statements.
fn keeps_statements() -> bool {
    let asked = Command::new(program()).arg("--version").output().expect("it ran a moment ago");
    let said = String::from_utf8_lossy(&asked.stdout);
    let version = said.split_whitespace().find(|word| word.starts_with("1."));
    let minor = version.and_then(|version| version.split('.').nth(1));
    minor.and_then(|minor| minor.parse::<u32>().ok()).is_some_and(|minor| minor >= 21)
}

/// A port that is free at the moment.
fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("127.0.0.1 has a free port");
    listener.local_addr().expect("a listener has an address").port()
}
