//! PostgreSQL for tests, ours and yours.
//!
//! - [`TestServer`]: the server that tests use. It starts by itself when there is none.
//! - [`TestDatabase`]: a fresh database for one test, so that all tests can run at the same time.
//! - [`wait_until`]: waits for something that happens soon, and tells what is missing if it does
//!   not.
//! - [`Pooler`]: a PgBouncer in transaction mode between a program and the database.
//! - [`Proxy`]: stands between a program and the database, and cuts the line when told to.
//!
//! # How it fails
//!
//! By panics, which is how tests fail. Each says what was being done and what to mend; when there
//! is no PostgreSQL on the machine, the panic says what to install.
//!
//! # Example
//!
//! ```no_run
//! use postrider_testkit::{TestDatabase, wait_until};
//! use std::time::Duration;
//!
//! # async fn a_worker_drains_the_queue() {
//! let database = TestDatabase::create().await;
//! let client = database.client().await;
//! client.batch_execute("create table queue (id bigint)").await.unwrap();
//! // … start the worker on `database.url()` …
//! wait_until("the queue is empty", Duration::from_secs(10), async || {
//!     let row = client.query_one("select count(*) from queue", &[]).await.unwrap();
//!     match row.get::<_, i64>(0) {
//!         0 => Ok(()),
//!         left => Err(format!("{left} are left")),
//!     }
//! })
//! .await;
//! database.drop().await;
//! # }
//! ```

mod database;
mod pooler;
mod proxy;
mod server;
mod template;
mod url;
mod wait;

pub use database::TestDatabase;
pub use pooler::Pooler;
pub use proxy::Proxy;
pub use server::TestServer;
pub use wait::wait_until;
