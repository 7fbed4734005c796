//! Template databases: prepared once, copied for each test.
//!
//! Invariant: a template that has its final name is complete. It is prepared under another name and
//! renamed at the end, all under an advisory lock, so that of several processes one does the work.

use crate::database::{connect, execute};
use crate::url::with_database;
use tokio_postgres::Client;

/// Makes the template for `key` unless it is there, and returns its name.
pub(crate) async fn ensure<F>(server_url: &str, key: &str, prepare: F) -> String
where
    F: AsyncFnOnce(String),
{
    let digest = digest(key);
    let name = format!("template_{digest:016x}");
    // The lock belongs to this session, and so ends with it even if the preparation panics.
    let maintenance = connect(server_url).await;
    let lock = digest.cast_signed();
    execute(&maintenance, &format!("select pg_advisory_lock('{lock}')")).await;
    if !exists(&maintenance, &name).await {
        let unfinished = format!("unfinished_{digest:016x}");
        let drop = format!("drop database if exists {unfinished} with (force)");
        execute(&maintenance, &drop).await;
        execute(&maintenance, &format!("create database {unfinished}")).await;
        prepare(with_database(server_url, &unfinished)).await;
        finish(&maintenance, &unfinished, &name).await;
    }
    execute(&maintenance, &format!("select pg_advisory_unlock('{lock}')")).await;
    name
}

/// Gives the database its final name. A database in which there is a session can neither be renamed
/// nor copied, so none may be left or come back.
async fn finish(maintenance: &Client, unfinished: &str, name: &str) {
    execute(maintenance, &format!("alter database {unfinished} allow_connections false")).await;
    let end_sessions = format!(
        "select pg_terminate_backend(pid) from pg_stat_activity where datname = '{unfinished}'"
    );
    execute(maintenance, &end_sessions).await;
    // It waits for up to 5 s for the sessions to go.
    execute(maintenance, &format!("alter database {unfinished} rename to {name}")).await;
}

async fn exists(maintenance: &Client, name: &str) -> bool {
    let query = format!("select 1 from pg_database where datname = '{name}'");
    match maintenance.simple_query(&query).await {
        Ok(messages) => {
            let is_row =
                |message: &_| matches!(message, tokio_postgres::SimpleQueryMessage::Row(_));
            messages.iter().any(is_row)
        }
        Err(error) => panic!("the test server refuses to list its databases: {error}"),
    }
}

/// FNV-1a, 64 bits. It must give the same in every process and every build, which the standard
/// library does not promise for its hashers. Keys come from tests, so nobody forges a collision.
fn digest(key: &str) -> u64 {
    key.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_is_the_published_one_so_that_all_builds_agree() {
        assert_eq!(digest(""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(digest("a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(digest("foobar"), 0x8594_4171_f739_67e8);
    }
}
