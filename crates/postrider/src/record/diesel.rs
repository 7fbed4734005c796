//! Recording in transactions of diesel, through diesel-async.
//!
//! How it fails: the server's error, or a broken connection. diesel passes no SQLSTATE on; it is
//! rebuilt from the kinds that diesel tells apart and from the constraint under which Postrider's
//! own functions repeat theirs. What remains is [`ErrorKind::Database`](crate::ErrorKind) without a
//! SQLSTATE.
//!
//! Invariant: the statement may be kept prepared by the connection, so the first call on a
//! connection takes two round trips and each further one takes one.

use diesel::pg::Pg;
use diesel::query_builder::{AstPass, Query, QueryFragment, QueryId};
use diesel::result::{DatabaseErrorKind, Error as DieselError, QueryResult};
use diesel::sql_types::{Nullable, Text};
use diesel_async::{AsyncPgConnection, RunQueryDsl};

use super::{Transaction, TransactionError};

/// Inside the closure of `connection.transaction(…)` it is the transaction; outside, each call is
/// a transaction of its own.
///
/// ```no_run
/// use diesel_async::{AsyncConnection, AsyncPgConnection, RunQueryDsl};
/// # async fn example(connection: &mut AsyncPgConnection, event: postrider::NewEvent)
/// # -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
/// connection
///     .transaction::<(), Box<dyn std::error::Error + Send + Sync>, _>(async |connection| {
///         diesel::sql_query("insert into orders (id) values (42)").execute(connection).await?;
///         postrider::Recorder::default().record(connection, &event).await?;
///         Ok(())
///     })
///     .await?;
/// # Ok(())
/// # }
/// ```
impl Transaction for AsyncPgConnection {
    async fn call(
        &mut self,
        sql: &str,
        params: &[Option<&str>],
    ) -> Result<Option<String>, TransactionError> {
        Ok(Call { sql, params }.get_result::<Option<String>>(self).await?)
    }
}

/// A call as diesel sees it. `sql_query` would do, but diesel never keeps such a query prepared and
/// so takes two round trips each time.
struct Call<'a> {
    sql: &'a str,
    params: &'a [Option<&'a str>],
}

impl QueryFragment<Pg> for Call<'_> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        // Diesel writes the placeholders itself, `$1` first. Each takes the place of the same text,
        // so the statement comes out as it went in.
        let mut rest = self.sql;
        for (place, text) in (1..).zip(self.params) {
            let (before, after) = rest.split_once(&format!("${place}")).ok_or_else(|| {
                let problem = format!("the statement has no place ${place} in order");
                DieselError::QueryBuilderError(problem.into())
            })?;
            out.push_sql(before);
            out.push_bind_param::<Nullable<Text>, _>(text)?;
            rest = after;
        }
        out.push_sql(rest);
        Ok(())
    }
}

impl Query for Call<'_> {
    type SqlType = Nullable<Text>;
}

/// The text identifies the statement: it differs by schema.
impl QueryId for Call<'_> {
    type QueryId = ();

    const HAS_STATIC_QUERY_ID: bool = false;
}

impl From<DieselError> for TransactionError {
    fn from(error: DieselError) -> Self {
        let told = match &error {
            DieselError::DatabaseError(
                DatabaseErrorKind::UnableToSendCommand | DatabaseErrorKind::ClosedConnection,
                _,
            ) => Self::new("the connection to PostgreSQL broke"),
            DieselError::DatabaseError(kind, told) => {
                let own = told.constraint_name().filter(|name| name.starts_with("PR"));
                let report = Self::refused(told.message()).hint(told.hint());
                let report = report.column(told.column_name());
                match own.or_else(|| sqlstate_of(kind)) {
                    Some(code) => report.sqlstate(code),
                    None => report,
                }
            }
            DieselError::NotFound => Self::refused("the function returned no row"),
            DieselError::BrokenTransactionManager => {
                Self::new("the connection is in a transaction that could not be ended")
            }
            _ => Self::refused("diesel could not run the statement"),
        };
        told.source(error)
    }
}

/// The SQLSTATE of the kinds that stand for exactly one.
fn sqlstate_of(kind: &DatabaseErrorKind) -> Option<&'static str> {
    match kind {
        DatabaseErrorKind::UniqueViolation => Some("23505"),
        DatabaseErrorKind::ForeignKeyViolation => Some("23503"),
        DatabaseErrorKind::RestrictViolation => Some("23001"),
        DatabaseErrorKind::NotNullViolation => Some("23502"),
        DatabaseErrorKind::CheckViolation => Some("23514"),
        DatabaseErrorKind::ExclusionViolation => Some("23P01"),
        DatabaseErrorKind::SerializationFailure => Some("40001"),
        DatabaseErrorKind::ReadOnlyTransaction => Some("25006"),
        _ => None,
    }
}
