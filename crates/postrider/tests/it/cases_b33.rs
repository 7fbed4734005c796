//! Case B33: maintenance and work do not deadlock. Bounded by an amount of work, not by minutes.

use std::time::Duration;

use postrider::admin::{Admin, JobFilter};
use postrider::{Database, Delivery, Engine, Handle, HandlerError, Schema, migrate};
use postrider_testkit::TestServer;
use tokio_postgres::Client;

use crate::maintenance::DAY;
use crate::support::eager;

const ROUNDS: i32 = 12;
const WRITERS: i32 = 3;

/// A relay and worker of which some deliveries fail.
async fn engine(database: &Database) -> Handle {
    let handler = async |delivery: Delivery| match delivery.event.seq % 5 {
        0 => Err(HandlerError::from("not now")),
        1 => Err(HandlerError::permanent("never")),
        _ => Ok(()),
    };
    Engine::builder(database.clone().pool_size(8))
        .poll_interval(Duration::from_millis(20))
        .relay_batch(20)
        .subscribe(eager("s", &["a.*"], 3), handler)
        .subscribe(eager("t", &["a.*"], 3), handler)
        .start()
        .await
        .unwrap()
}

/// Records in transactions of a few events each; a business transaction is never the victim.
async fn write(database: Database, writer: i32) {
    let client = database.connect().await.unwrap();
    for round in 0..ROUNDS * 20 {
        let sql =
            "select count(postrider.record('a.b', $1 || n::text)) from generate_series(1, 5) n";
        client.execute(sql, &[&format!("{writer}/{round}/")]).await.unwrap();
    }
}

/// Cancels whatever waits, again and again, and creates and deletes a subscription.
async fn interfere(database: Database) {
    let admin = Admin::connect(&database, &Schema::default()).await.unwrap();
    for round in 0..ROUNDS {
        for job in admin.jobs(&JobFilter::default()).await.unwrap().items {
            admin.cancel_job(job.id).await.unwrap();
            admin.retry_job(job.id).await.unwrap();
        }
        let name = format!("short-lived.{round}");
        admin.create_subscription(&eager(&name, &["a.b"], 1)).await.unwrap();
        admin.delete_subscription(&name).await.unwrap();
    }
}

async fn count(client: &Client, sql: &str) -> i64 {
    client.query_one(sql, &[]).await.unwrap().get(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn b33_four_relays_with_maintenance_cancels_and_writers_meet_no_deadlock() {
    let server = TestServer::own().await;
    let database = Database::new(&server.url()).unwrap();
    let mut client = database.connect().await.unwrap();
    migrate::apply(&mut client, &Schema::default()).await.unwrap();
    client
        .batch_execute(
            "insert into postrider.event_type (type) values ('a.b');
             update postrider.setting set event_retention = '1 hour',
               completed_retention = '1 hour', discarded_retention = '1 hour'",
        )
        .await
        .unwrap();
    let mut engines = Vec::new();
    for _ in 0..4 {
        engines.push(engine(&database).await);
    }
    let writers = (0..WRITERS).map(|writer| tokio::spawn(write(database.clone(), writer)));
    let writers: Vec<_> = writers.collect();
    let interfering = tokio::spawn(interfere(database.clone()));
    for round in 0..ROUNDS {
        // Each round all four keep house at once; some find days to drop.
        if round % 3 == 0 {
            engines.iter().for_each(|engine| engine.advance_clock(DAY));
        }
        let all = engines.iter().map(Handle::maintain);
        for done in futures_util::future::join_all(all).await {
            done.unwrap();
        }
    }
    interfering.await.unwrap();
    for writer in writers {
        writer.await.unwrap();
    }
    for engine in engines {
        engine.shutdown().await;
    }
    let log = std::fs::read_to_string(server.log_file()).unwrap();
    let deadlocks: Vec<&str> = log.lines().filter(|line| line.contains("deadlock")).collect();
    assert!(deadlocks.is_empty(), "{deadlocks:#?}");
    assert!(count(&client, "select count(*) from pg_stat_user_tables").await > 0);
    server.stop().await.unwrap();
}
