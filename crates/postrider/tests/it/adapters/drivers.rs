//! The same work in a transaction of each driver.

use postrider::Transaction;

/// What to do in the transaction.
pub trait Work: Send {
    type Output: Send;

    fn run<T: Transaction>(self, transaction: &mut T) -> impl Future<Output = Self::Output> + Send;
}

/// How the transaction is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Commit,
    RollBack,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Driver {
    TokioPostgres,
    #[cfg(feature = "sqlx")]
    Sqlx,
    #[cfg(feature = "diesel-async")]
    Diesel,
    #[cfg(feature = "sea-orm")]
    SeaOrm,
}

impl Driver {
    pub const ALL: &[Self] = &[
        Self::TokioPostgres,
        #[cfg(feature = "sqlx")]
        Self::Sqlx,
        #[cfg(feature = "diesel-async")]
        Self::Diesel,
        #[cfg(feature = "sea-orm")]
        Self::SeaOrm,
    ];

    /// Runs `work` in a transaction of this driver, on a connection of its own. Whether a commit
    /// was accepted is not told: look at what is in the database.
    pub async fn run<W: Work>(self, url: &str, end: End, work: W) -> W::Output {
        match self {
            Self::TokioPostgres => tokio_postgres(url, end, work).await,
            #[cfg(feature = "sqlx")]
            Self::Sqlx => sqlx(url, end, work).await,
            #[cfg(feature = "diesel-async")]
            Self::Diesel => diesel(url, end, work).await,
            #[cfg(feature = "sea-orm")]
            Self::SeaOrm => sea_orm(url, end, work).await,
        }
    }
}

async fn tokio_postgres<W: Work>(url: &str, end: End, work: W) -> W::Output {
    let (mut client, connection) =
        tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let mut transaction = client.transaction().await.unwrap();
    let output = work.run(&mut transaction).await;
    let _ = match end {
        End::Commit => transaction.commit().await,
        End::RollBack => transaction.rollback().await,
    };
    output
}

#[cfg(feature = "sqlx")]
async fn sqlx<W: Work>(url: &str, end: End, work: W) -> W::Output {
    use sqlx::Connection as _;

    let mut connection = sqlx::PgConnection::connect(url).await.unwrap();
    let mut transaction = connection.begin().await.unwrap();
    let output = work.run(&mut transaction).await;
    let _ = match end {
        End::Commit => transaction.commit().await,
        End::RollBack => transaction.rollback().await,
    };
    output
}

#[cfg(feature = "diesel-async")]
async fn diesel<W: Work>(url: &str, end: End, work: W) -> W::Output {
    use diesel::result::Error;
    use diesel_async::{AsyncConnection as _, AsyncPgConnection};

    let mut connection = AsyncPgConnection::establish(url).await.unwrap();
    let mut output = None;
    let slot = &mut output;
    let _ = connection
        .transaction::<(), Error, _>(async move |connection: &mut AsyncPgConnection| {
            *slot = Some(work.run(connection).await);
            match end {
                End::Commit => Ok(()),
                End::RollBack => Err(Error::RollbackTransaction),
            }
        })
        .await;
    output.unwrap()
}

#[cfg(feature = "sea-orm")]
async fn sea_orm<W: Work>(url: &str, end: End, work: W) -> W::Output {
    use sea_orm::{Database, TransactionTrait as _};

    let connection = Database::connect(url).await.unwrap();
    let transaction = connection.begin().await.unwrap();
    // A reference, as inside the closure of `connection.transaction(…)`.
    let output = work.run(&mut &transaction).await;
    let _ = match end {
        End::Commit => transaction.commit().await,
        End::RollBack => transaction.rollback().await,
    };
    output
}
