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
            return Self::new("the connection to PostgreSQL broke").source(error);
        };
        let report = Self::new(db.message()).sqlstate(db.code().code()).hint(db.hint());
        report.column(db.column()).source(error)
    }
}
