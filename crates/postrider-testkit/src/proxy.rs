//! A line to the database that can be cut.
//!
//! Forwards TCP connections, and fails in the two ways in which networks fail: loudly, by a reset,
//! and silently, by nothing arriving any more; or it is slow. Invariant: bytes are never dropped
//! from the middle of a connection. What a silent line holds back arrives after
//! [`Proxy::restore`], as TCP's retransmission would have it.

use crate::url;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// What the line does at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Forward,
    Silent,
    Stranded,
    Cut,
}

/// The state of the line. Connections compare `cuts` with its value at their beginning, so that
/// they notice a cut even if the line is restored before they look.
#[derive(Debug, Clone, Copy)]
struct Line {
    mode: Mode,
    cuts: u64,
    /// How long each piece is held back.
    delay: Duration,
}

/// A TCP proxy which fails on demand, for tests of what a program does when the network does.
///
/// It listens on a free port of 127.0.0.1 and forwards to its target. Dropping it resets all
/// connections.
///
/// ```no_run
/// use postrider_testkit::{Proxy, TestDatabase};
///
/// # async fn example() {
/// let database = TestDatabase::create().await;
/// let proxy = Proxy::to_database(&database.url()).await;
/// let url = proxy.url_through(&database.url());
/// // … start the program on `url` …
/// proxy.blackhole(); // the database falls silent
/// proxy.cut(); // and now it is gone
/// proxy.restore();
/// # }
/// ```
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    line: watch::Sender<Line>,
    accepted: Arc<AtomicU64>,
    acceptor: JoinHandle<()>,
}

impl Proxy {
    /// A proxy to `target`, an address such as "127.0.0.1:5432". Its tasks run on the current tokio
    /// runtime and end with the value.
    ///
    /// # Panics
    ///
    /// When there is no free port on 127.0.0.1.
    pub async fn to(target: impl Into<String>) -> Self {
        let listener =
            TcpListener::bind(("127.0.0.1", 0)).await.expect("127.0.0.1 has a free port");
        let address = listener.local_addr().expect("a listener has an address");
        let (line, state) =
            watch::channel(Line { mode: Mode::Forward, cuts: 0, delay: Duration::ZERO });
        let accepted = Arc::default();
        let acceptor = tokio::spawn(accept(listener, target.into(), state, Arc::clone(&accepted)));
        Self { address, line, accepted, acceptor }
    }

    /// A proxy to the server in a PostgreSQL URL.
    ///
    /// # Panics
    ///
    /// When `url` is no URL, or there is no free port on 127.0.0.1.
    pub async fn to_database(url: &str) -> Self {
        Self::to(url::address_of(url)).await
    }

    /// Where the proxy listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The same PostgreSQL URL, with the address of the proxy.
    ///
    /// # Panics
    ///
    /// When `url` is no URL.
    pub fn url_through(&self, url: &str) -> String {
        url::with_address(url, &self.address.to_string())
    }

    /// How many connections it has accepted so far, whatever became of them: by its growth a test
    /// sees that a program gave up a silent connection and tries another.
    pub fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }

    /// Resets all connections, and each new one at once, until [`Self::restore`].
    pub fn cut(&self) {
        self.line.send_modify(|line| (line.mode, line.cuts) = (Mode::Cut, line.cuts + 1));
    }

    /// Lets nothing through in either direction, without closing anything, until [`Self::restore`].
    /// New connections are accepted and hear nothing.
    pub fn blackhole(&self) {
        self.line.send_modify(|line| line.mode = Mode::Silent);
    }

    /// Holds back for `delay` whatever passes from now on, in each direction, until told otherwise:
    /// a question and its answer take twice as long. Zero is no delay.
    pub fn slow(&self, delay: Duration) {
        self.line.send_modify(|line| line.delay = delay);
    }

    /// Lets nothing through on the connections of before, without closing them, and resets each new
    /// one at once, until [`Self::restore`]: as a host that died behind a router which knows it.
    pub fn strand(&self) {
        self.line.send_modify(|line| line.mode = Mode::Stranded);
    }

    /// Forwards again. Connections that lived through [`Self::blackhole`] go on where they were.
    pub fn restore(&self) {
        self.line.send_modify(|line| line.mode = Mode::Forward);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.cut();
        self.acceptor.abort();
    }
}

async fn accept(
    listener: TcpListener,
    target: String,
    line: watch::Receiver<Line>,
    accepted: Arc<AtomicU64>,
) {
    // An error here is of one connection, such as a peer which has gone again.
    loop {
        if let Ok((near, _)) = listener.accept().await {
            accepted.fetch_add(1, Ordering::Relaxed);
            tokio::spawn(serve(near, target.clone(), line.clone()));
        }
    }
}

/// Serves one connection until either side has closed it or the line is cut.
async fn serve(mut near: TcpStream, target: String, mut line: watch::Receiver<Line>) {
    let Line { mode, cuts, .. } = *line.borrow_and_update();
    if matches!(mode, Mode::Cut | Mode::Stranded)
        || until_forward(&mut line.clone(), cuts).await.is_err()
    {
        return reset(&near);
    }
    // A target which refuses looks the same from the near side as a line which is cut.
    let Ok(mut far) = TcpStream::connect(&target).await else {
        return reset(&near);
    };
    let done = {
        let (near_read, near_write) = near.split();
        let (far_read, far_write) = far.split();
        tokio::try_join!(
            pump(near_read, far_write, line.clone(), cuts),
            pump(far_read, near_write, line, cuts),
        )
    };
    if done.is_err() {
        reset(&near);
        reset(&far);
    }
}

/// Carries bytes in one direction to the end of the stream.
///
/// # Errors
///
/// When the line is cut or a connection breaks.
async fn pump(
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    mut line: watch::Receiver<Line>,
    cuts: u64,
) -> io::Result<()> {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        until_forward(&mut line, cuts).await?;
        let length = tokio::select! {
            biased;
            changed = line.changed() => match changed {
                Ok(()) => continue,
                Err(_) => return Err(cut()),
            },
            length = from.read(&mut buffer) => length?,
        };
        let delay = line.borrow().delay;
        if !delay.is_zero() {
            tokio::select! {
                () = tokio::time::sleep(delay) => {}
                error = until_cut(line.clone(), cuts) => return Err(error),
            }
        }
        // The line may have fallen silent in this very moment; then what was read must wait.
        until_forward(&mut line, cuts).await?;
        if length == 0 {
            return to.shutdown().await;
        }
        tokio::select! {
            biased;
            written = to.write_all(&buffer[..length]) => written?,
            error = until_cut(line.clone(), cuts) => return Err(error),
        }
    }
}

/// Waits until the line forwards.
///
/// # Errors
///
/// When it is cut, now or since the connection began.
async fn until_forward(line: &mut watch::Receiver<Line>, cuts: u64) -> io::Result<()> {
    let is_silent = |line: &Line| matches!(line.mode, Mode::Silent | Mode::Stranded);
    let settled = |line: &Line| !is_silent(line) || line.cuts != cuts;
    match line.wait_for(settled).await {
        Ok(line) if line.cuts == cuts && line.mode == Mode::Forward => Ok(()),
        _ => Err(cut()),
    }
}

/// Waits until the line is cut.
async fn until_cut(mut line: watch::Receiver<Line>, cuts: u64) -> io::Error {
    // It fails when the proxy has been dropped, which is a cut as well.
    let _ = line.wait_for(|line| line.cuts != cuts).await;
    cut()
}

fn cut() -> io::Error {
    io::ErrorKind::ConnectionReset.into()
}

/// Makes closing the connection a reset, so that the peer learns of it at once and as an error.
fn reset(stream: &TcpStream) {
    // If it fails, the connection has gone already.
    let _ = stream.set_zero_linger();
}
