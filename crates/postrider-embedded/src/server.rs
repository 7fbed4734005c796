//! A private server: start, stop, crash, restart.

mod launch;

use crate::directory::Directory;
use crate::initdb::{SUPERUSER, ensure_cluster};
use crate::options::ServerOptions;
use crate::postmaster::{Postmaster, STOP_AT_ONCE, STOP_CLEANLY, STOP_SOON, Step};
use crate::{Binaries, StartError, StopError, Version, find_or_download};
use nix::sys::signal::Signal;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::sleep;

/// How often to ask a starting server whether it is ready.
const ASK_EVERY: Duration = Duration::from_millis(20);

/// A running PostgreSQL server that belongs to this process.
///
/// It listens on 127.0.0.1 only, and connecting needs the random password in [`Self::url`]. When
/// the value is dropped, the server is stopped and temporary data are removed; that blocks for 10 s
/// at most, and for some milliseconds as a rule. [`Self::stop`] does the same without blocking and
/// tells of failures. If the process dies, even by SIGKILL, a watchdog does it.
///
/// ```no_run
/// use postrider_embedded::{PrivateServer, ServerOptions};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let mut server = PrivateServer::start(ServerOptions::fast_and_unsafe()).await?;
/// server.kill_hard().await; // what does our program do when PostgreSQL crashes?
/// server.restart().await?; // the same port and password, so that clients find it again
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct PrivateServer {
    // Declared first, so dropped first: the server must be gone before its directory is removed.
    running: Running,
    directory: Directory,
    binaries: Binaries,
    settings: BTreeMap<String, String>,
    start_timeout: Duration,
    password: String,
    port: u16,
}

impl PrivateServer {
    /// Starts a server and returns when it answers. A new cluster takes a second or two.
    ///
    /// # Errors
    ///
    /// [`StartError::Find`] when there are no programs to run; [`StartError::Directory`],
    /// [`StartError::AlreadyRunning`] or [`StartError::OtherVersion`] when the directory does not
    /// serve; [`StartError::Ended`] or [`StartError::NotReady`], with the end of the server's log,
    /// when it did not come up. Nothing is left running and nothing temporary is left over.
    pub async fn start(options: ServerOptions) -> Result<Self, StartError> {
        let binaries = match options.binaries.clone() {
            Some(binaries) => binaries,
            None => find_or_download().await?,
        };
        let start_timeout = options.start_timeout;
        let (directory, password, options, binaries) = blocking(move || {
            let directory = Directory::take(options.directory.as_deref())?;
            let password = ensure_cluster(&directory, &binaries, &options)?;
            Ok((directory, password, options, binaries))
        })
        .await?;
        let mut server = Self {
            running: Running(None),
            directory,
            binaries,
            settings: options.settings,
            start_timeout,
            password,
            port: 0,
        };
        server.launch_on(options.port).await?;
        Ok(server)
    }

    /// Where the database `postgres` answers, as
    /// `postgres://USER:PASSWORD@127.0.0.1:PORT/postgres`. The user is a superuser. The URL stays
    /// the same over [`Self::restart`].
    pub fn url(&self) -> String {
        format!("postgres://{SUPERUSER}:{}@127.0.0.1:{}/postgres", self.password, self.port)
    }

    /// The port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The directory of the database cluster, which PostgreSQL calls PGDATA. The log of the server
    /// is beside it, in `postgres.log`.
    pub fn data_dir(&self) -> PathBuf {
        self.directory.data()
    }

    /// The log that the server writes.
    pub fn log_file(&self) -> PathBuf {
        self.directory.log()
    }

    /// The directory of PostgreSQL's programs, for tests which need more of them, such as `psql`.
    pub fn bin_dir(&self) -> &Path {
        self.binaries.directory()
    }

    /// The server's first process, or `None` when it does not run because of [`Self::kill_hard`].
    pub fn pid(&self) -> Option<u32> {
        self.running.0.as_ref().map(Postmaster::pid)
    }

    /// The version of the server.
    pub fn version(&self) -> Version {
        self.binaries.version()
    }

    /// Stops the server: open sessions are ended, and the data, unless temporary, are written to
    /// disk. A server that does not stop within 10 s is stopped ever harder. Removes temporary
    /// data.
    ///
    /// # Errors
    ///
    /// [`StopError::Survived`] when the server cannot be ended, [`StopError::Cleanup`] when the
    /// temporary data cannot be removed.
    pub async fn stop(mut self) -> Result<(), StopError> {
        let stop = move || {
            let temporary = self.directory.is_temporary();
            self.running.stop(if temporary { &STOP_AT_ONCE } else { &STOP_CLEANLY })?;
            self.directory.remove_if_temporary().map_err(|source| {
                let path = self.directory.path().to_path_buf();
                StopError::Cleanup { path, source }
            })
        };
        tokio::task::spawn_blocking(stop).await.expect("stopping does not panic")
    }

    /// Kills the server's first process by SIGKILL, as the kernel does when memory is short. Its
    /// other processes notice and end by themselves. Returns when the first process has ended;
    /// [`Self::restart`] brings the server back, after recovery from its log.
    pub async fn kill_hard(&mut self) {
        let Some(mut postmaster) = self.running.0.take() else {
            return;
        };
        postmaster.signal(Signal::SIGKILL);
        while postmaster.ended().is_none() {
            sleep(ASK_EVERY).await;
        }
    }

    /// Stops the server if it runs, as [`Self::stop`] does but keeping the data, and starts it
    /// again with the same settings on the same port.
    ///
    /// # Errors
    ///
    /// Those of [`Self::start`]. The server then does not run, and this can be called again.
    ///
    /// # Panics
    ///
    /// When the running server cannot be ended even by SIGKILL.
    pub async fn restart(&mut self) -> Result<(), StartError> {
        let mut running = Running(self.running.0.take());
        let stopped = tokio::task::spawn_blocking(move || running.stop(&STOP_CLEANLY)).await;
        stopped.expect("stopping does not panic").expect("SIGKILL ends a process");
        self.launch_on(Some(self.port)).await
    }
}

impl Drop for PrivateServer {
    fn drop(&mut self) {
        let steps: &[Step] = if self.directory.is_temporary() { &STOP_AT_ONCE } else { &STOP_SOON };
        // There is nobody to tell.
        let _ = self.running.stop(steps);
    }
}

/// A server that is stopped when dropped.
#[derive(Debug)]
struct Running(Option<Postmaster>);

impl Running {
    fn stop(&mut self, steps: &[Step]) -> Result<(), StopError> {
        let Some(mut postmaster) = self.0.take() else {
            return Ok(());
        };
        if postmaster.stop(steps) {
            return Ok(());
        }
        Err(StopError::Survived { pid: postmaster.pid() })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.stop(&STOP_SOON);
    }
}

/// Runs what blocks for longer than a moment.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StartError> + Send + 'static,
) -> Result<T, StartError> {
    tokio::task::spawn_blocking(work).await.expect("starting does not panic")
}
