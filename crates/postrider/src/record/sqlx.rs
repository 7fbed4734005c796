//! Recording in transactions of sqlx.
//!
//! How it fails: the server's error with its SQLSTATE, or a broken connection without one.
//! Invariant: the statement is prepared as all of the connection's are, so the first call on a
//! connection takes two round trips and each further one takes one; a connection that keeps no
//! statements (`statement_cache_capacity(0)`, for poolers in transaction mode) takes two each time.

use sqlx::postgres::{PgDatabaseError, PgRow};
use sqlx::{AssertSqlSafe, PgConnection, Postgres, Row, Transaction as SqlxTransaction};

use super::{Transaction, TransactionError};

/// ```no_run
/// # async fn example(pool: &sqlx::PgPool, event: postrider::NewEvent)
/// # -> Result<(), Box<dyn std::error::Error>> {
/// let mut transaction = pool.begin().await?;
/// sqlx::query("insert into orders (id) values (42)").execute(&mut *transaction).await?;
/// postrider::Recorder::default().record(&mut transaction, &event).await?;
/// transaction.commit().await?;
/// # Ok(())
/// # }
/// ```
impl Transaction for SqlxTransaction<'_, Postgres> {
    async fn call(
        &mut self,
        sql: &str,
        params: &[Option<&str>],
    ) -> Result<Option<String>, TransactionError> {
        call(self, sql, params).await
    }
}

/// Outside an explicit transaction each call is a transaction of its own. A pooled connection is
/// one of these behind a `&mut *`.
impl Transaction for PgConnection {
    async fn call(
        &mut self,
        sql: &str,
        params: &[Option<&str>],
    ) -> Result<Option<String>, TransactionError> {
        call(self, sql, params).await
    }
}

async fn call(
    connection: &mut PgConnection,
    sql: &str,
    params: &[Option<&str>],
) -> Result<Option<String>, TransactionError> {
    // Safe: the text comes from this crate's files, with the schema's name quoted.
    let query = sqlx::query::<Postgres>(AssertSqlSafe(sql));
    let query = params.iter().fold(query, |query, text| query.bind(*text));
    let row: PgRow = query.fetch_one(connection).await?;
    Ok(row.try_get(0)?)
}

impl From<sqlx::Error> for TransactionError {
    fn from(error: sqlx::Error) -> Self {
        reported(&error).source(error)
    }
}

/// What the error tells; SeaORM wraps the same one.
pub(super) fn reported(error: &sqlx::Error) -> TransactionError {
    match error {
        sqlx::Error::Database(database) => {
            let known = database.try_downcast_ref::<PgDatabaseError>();
            TransactionError::refused(database.message())
                .sqlstate(database.code().unwrap_or_default())
                .hint(known.and_then(PgDatabaseError::hint))
                .column(known.and_then(PgDatabaseError::column))
        }
        sqlx::Error::RowNotFound => TransactionError::refused("the function returned no row"),
        _ => TransactionError::new("the connection to PostgreSQL broke"),
    }
}
