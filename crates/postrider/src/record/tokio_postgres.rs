//! Recording in transactions of tokio-postgres.
//!
//! How it fails: the server's error with its SQLSTATE, or a broken connection without one.
//! Invariant: parse, bind and execute travel together, on an unnamed statement, so that one round
//! trip is enough and poolers in transaction mode work.

use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, GenericClient, Transaction as PgTransaction};

use super::{Transaction, TransactionError};

impl Transaction for PgTransaction<'_> {
    async fn call(
        &mut self,
        sql: &str,
        params: &[Option<&str>],
    ) -> Result<Option<String>, TransactionError> {
        call(self, sql, params).await
    }
}

/// What a handler in a transaction of the engine is given; pass `&mut &*transaction`.
impl Transaction for &PgTransaction<'_> {
    async fn call(
        &mut self,
        sql: &str,
        params: &[Option<&str>],
    ) -> Result<Option<String>, TransactionError> {
        call(*self, sql, params).await
    }
}

/// Outside an explicit transaction each call is a transaction of its own.
impl Transaction for Client {
    async fn call(
        &mut self,
        sql: &str,
        params: &[Option<&str>],
    ) -> Result<Option<String>, TransactionError> {
        call(self, sql, params).await
    }
}

async fn call<C: GenericClient + Sync>(
    client: &C,
    sql: &str,
    params: &[Option<&str>],
) -> Result<Option<String>, TransactionError> {
    let typed: Vec<(&(dyn ToSql + Sync), Type)> =
        params.iter().map(|text| (text as &(dyn ToSql + Sync), Type::TEXT)).collect();
    let rows = client.query_typed(sql, &typed).await?;
    let row =
        rows.first().ok_or_else(|| TransactionError::refused("the function returned no row"))?;
    Ok(row.try_get(0)?)
}

impl From<tokio_postgres::Error> for TransactionError {
    fn from(error: tokio_postgres::Error) -> Self {
        let Some(db) = error.as_db_error() else {
            // A value that could not be written or read says nothing about the connection.
            return match values_are_at_fault(&error) {
                true => Self::refused("a value passed to or from PostgreSQL is not as expected"),
                false => Self::new("the connection to PostgreSQL broke"),
            }
            .source(error);
        };
        // What is wrong with a text or JSON stands in the detail. Other details are left out: that
        // of a violated constraint holds the row.
        let is_about_input = db.code().code().starts_with("22");
        let hint = db.hint().or(db.detail().filter(|_| is_about_input));
        let report = Self::new(db.message()).sqlstate(db.code().code()).hint(hint);
        report.column(db.column()).source(error)
    }
}

/// Whether the driver failed to convert a value, by the cause it gives: a broken connection has an
/// I/O error or none.
fn values_are_at_fault(error: &tokio_postgres::Error) -> bool {
    let text = error.to_string();
    std::error::Error::source(error).is_some()
        && (text.starts_with("error serializing") || text.starts_with("error deserializing"))
}
