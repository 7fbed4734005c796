//! Finds the PostgreSQL server on this machine, or runs a private one.
//!
//! Postrider needs a PostgreSQL. Whoever tries it out, and every test, should get one without
//! administering anything: [`PrivateServer::start`] makes a database cluster, starts a server that
//! only this process knows the password of, and takes both away again.
//!
//! # How it fails
//!
//! - No server programs on this machine: [`FindError`] says what to install and how else to go on.
//! - The server does not come up: [`StartError`] carries the last lines of its log.
//! - Our process dies, even by SIGKILL: a watchdog stops the server and removes temporary data.
//!
//! # Invariants
//!
//! - A server never outlives its [`PrivateServer`] or the process which owns that.
//! - A server listens on 127.0.0.1 only, and every connection needs a random password.
//! - A cluster that exists is complete: it is made under another name and renamed.
//! - At most one [`PrivateServer`] holds a directory at any time.
//!
//! # Example
//!
//! ```no_run
//! use postrider_embedded::{PrivateServer, ServerOptions};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let server = PrivateServer::start(ServerOptions::new()).await?;
//! println!("PostgreSQL {} answers at {}", server.version(), server.url());
//! server.stop().await?;
//! # Ok(())
//! # }
//! ```

#[cfg(not(unix))]
compile_error!("postrider-embedded runs PostgreSQL through a POSIX shell: it needs Unix or macOS");

mod account;
mod binaries;
mod directory;
#[cfg(feature = "download")]
mod download;
mod error;
mod initdb;
mod options;
mod postmaster;
mod random;
mod search;
mod server;
mod version;

pub use binaries::{Binaries, find_binaries, find_or_download};
pub use error::{FindError, StartError, StopError};
pub use options::ServerOptions;
pub use server::PrivateServer;
pub use version::Version;
