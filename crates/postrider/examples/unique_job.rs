//! A search index that is refreshed once for many changes of one document.
//!
//! `DATABASE_URL=postgres://… cargo run -p postrider --features engine --example unique_job` saves
//! a document several times. Each save enqueues a refresh in its own transaction, unique by the
//! document: while one waits, the next save finds it, and the refresh reads what all of them wrote.

use std::error::Error;
use std::time::Duration;

use postrider::{
    Awaited, Database, Engine, Enqueued, HandlerError, Job, JobArguments, Kind, Recorder, Unique,
};

const TABLES: &str = "create table if not exists document (id bigint primary key, words text);
    create table if not exists search_index (id bigint primary key, words text)";
const SAVE: &str = "insert into document values ($1, $2)
    on conflict (id) do update set words = excluded.words";
const REFRESH: &str = "insert into search_index select id, words from document where id = $1
    on conflict (id) do update set words = excluded.words";

#[derive(serde::Serialize, serde::Deserialize)]
struct Refresh {
    document: i64,
}

impl JobArguments for Refresh {
    const KIND: &'static str = "search.refresh";
}

/// Reads the document as it is now, whatever was saved when the job was enqueued.
async fn refresh(database: Database, job: Job<Refresh>) -> Result<(), HandlerError> {
    let client = database.connect().await?;
    client.execute(REFRESH, &[&job.arguments.document]).await?;
    Ok(())
}

/// Saves each text as the document 7; returns how many refreshes were enqueued.
pub async fn run(url: &str, texts: &[&str]) -> Result<usize, Box<dyn Error + Send + Sync>> {
    let database = Database::new(url)?;
    let mut client = database.connect().await?;
    client.batch_execute(TABLES).await?;
    let for_handler = database.clone();
    let engine = Engine::builder(database)
        .handle(Kind::named(Refresh::KIND)?, move |job| refresh(for_handler.clone(), job))
        .migrate_on_start()
        .start()
        .await?;

    // A moment's delay lets a few saves share one refresh.
    let job = Refresh { document: 7 }.job()?.delay(Duration::from_millis(100));
    let job = job.unique(Unique::by(["document"]));
    let (mut refreshes, mut last) = (0, None);
    for text in texts {
        let mut transaction = client.transaction().await?;
        transaction.execute(SAVE, &[&7_i64, text]).await?;
        let enqueued = Recorder::default().enqueue(&mut transaction, &job).await?;
        transaction.commit().await?;
        refreshes += usize::from(matches!(enqueued, Enqueued::Inserted(_)));
        last = Some(enqueued.job_id());
    }
    if let Some(id) = last
        && let Awaited::TimedOut = engine.await_job(id, Duration::from_secs(30)).await?
    {
        return Err("the index is not refreshed".into());
    }
    engine.shutdown().await;
    Ok(refreshes)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let texts = ["draft", "second draft", "third draft", "the text"];
    let refreshes = run(&std::env::var("DATABASE_URL")?, &texts).await?;
    println!("{} saves, {refreshes} refreshes: see the table search_index", texts.len());
    Ok(())
}
