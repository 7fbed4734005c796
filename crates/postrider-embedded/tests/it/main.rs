//! Private servers on the PostgreSQL of this machine.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test, like the tests")]

mod directory;
mod lifetime;
mod owner;

use postrider_embedded::{PrivateServer, ServerOptions};
use std::path::{Path, PathBuf};
use tokio_postgres::{Client, Error, NoTls};

/// A server which does not wait for the disk.
async fn fast_server() -> PrivateServer {
    PrivateServer::start(ServerOptions::fast_and_unsafe()).await.unwrap()
}

async fn connect(url: &str) -> Result<Client, Error> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

async fn count(client: &Client, query: &str) -> i64 {
    client.query_one(query, &[]).await.unwrap().get(0)
}

/// A path for a directory that is removed at the end of the test, also of one that fails.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let process = std::process::id();
        Self(std::env::temp_dir().join(format!("postrider-test-{process}-{name}")))
    }

    fn path(&self) -> &Path {
        &self.0
    }

    fn options(&self) -> ServerOptions {
        ServerOptions::fast_and_unsafe().directory(&self.0)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
