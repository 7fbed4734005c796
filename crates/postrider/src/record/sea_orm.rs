//! Recording in transactions of SeaORM.
//!
//! How it fails: the server's error with its SQLSTATE, or a broken connection without one.
//! Invariant: SeaORM runs statements through sqlx, so round trips are counted as there.

use sea_orm::{
    ConnectionTrait, DatabaseConnection, DatabaseExecutor, DatabaseTransaction, DbBackend, DbErr,
    RuntimeErr, Statement, Value,
};

use super::{Transaction, TransactionError, sqlx::reported};

/// ```no_run
/// use sea_orm::{ConnectionTrait, TransactionTrait};
/// # async fn example(database: &sea_orm::DatabaseConnection, event: postrider::NewEvent)
/// # -> Result<(), Box<dyn std::error::Error>> {
/// let mut transaction = database.begin().await?;
/// transaction.execute_unprepared("insert into orders (id) values (42)").await?;
/// postrider::Recorder::default().record(&mut transaction, &event).await?;
/// transaction.commit().await?;
/// # Ok(())
/// # }
/// ```
impl Transaction for DatabaseTransaction {
    async fn call(
        &mut self,
        sql: &str,
        params: &[Option<&str>],
    ) -> Result<Option<String>, TransactionError> {
        call(self, sql, params).await
    }
}

/// What the closure of `connection.transaction(…)` is given; pass `&mut &*transaction`.
impl Transaction for &DatabaseTransaction {
    async fn call(
        &mut self,
        sql: &str,
        params: &[Option<&str>],
    ) -> Result<Option<String>, TransactionError> {
        call(*self, sql, params).await
    }
}

/// Each call takes a connection of the pool and is a transaction of its own.
impl Transaction for DatabaseConnection {
    async fn call(
        &mut self,
        sql: &str,
        params: &[Option<&str>],
    ) -> Result<Option<String>, TransactionError> {
        call(self, sql, params).await
    }
}

/// As the connection or the transaction inside.
impl Transaction for DatabaseExecutor<'_> {
    async fn call(
        &mut self,
        sql: &str,
        params: &[Option<&str>],
    ) -> Result<Option<String>, TransactionError> {
        call(self, sql, params).await
    }
}

async fn call<C: ConnectionTrait>(
    connection: &C,
    sql: &str,
    params: &[Option<&str>],
) -> Result<Option<String>, TransactionError> {
    let values = params.iter().map(|text| Value::String(text.map(str::to_owned)));
    let statement = Statement::from_sql_and_values(DbBackend::Postgres, sql, values);
    let row = connection.query_one_raw(statement).await?;
    let row = row.ok_or_else(|| TransactionError::refused("the function returned no row"))?;
    Ok(row.try_get_by_index(0)?)
}

impl From<DbErr> for TransactionError {
    fn from(error: DbErr) -> Self {
        let told = match &error {
            DbErr::Conn(inner) | DbErr::Exec(inner) | DbErr::Query(inner) => match inner {
                RuntimeErr::SqlxError(inner) => reported(inner),
                _ => Self::new("the connection to PostgreSQL broke"),
            },
            _ => Self::new("the connection to PostgreSQL broke"),
        };
        told.source(error)
    }
}
