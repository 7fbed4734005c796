//! Start, stop, crash and restart.

use crate::{connect, count, fast_server};
use postrider_embedded::{PrivateServer, ServerOptions, StartError};

#[tokio::test]
async fn a_server_answers_and_leaves_nothing_behind_when_stopped() {
    let server = PrivateServer::start(ServerOptions::new()).await.unwrap();
    let client = connect(&server.url()).await.unwrap();
    let row = client
        .query_one("select current_setting('fsync'), current_setting('server_version')", &[])
        .await
        .unwrap();
    assert_eq!(row.get::<_, &str>(0), "on");
    assert!(row.get::<_, &str>(1).starts_with(&server.version().to_string()));

    let (url, directory) = (server.url(), server.data_dir().parent().unwrap().to_path_buf());
    assert!(directory.exists());
    server.stop().await.unwrap();
    assert!(connect(&url).await.is_err());
    assert!(!directory.exists());
}

#[tokio::test]
async fn dropping_a_server_stops_it_and_removes_its_data() {
    let server = fast_server().await;
    let (url, directory) = (server.url(), server.data_dir().parent().unwrap().to_path_buf());
    drop(server);
    assert!(connect(&url).await.is_err());
    assert!(!directory.exists());
}

#[tokio::test]
async fn what_was_committed_survives_a_crash_and_the_url_stays() {
    let mut server = fast_server().await;
    let url = server.url();
    let client = connect(&url).await.unwrap();
    client.batch_execute("create table t as select 1 as n").await.unwrap();

    server.kill_hard().await;
    assert_eq!(server.pid(), None);
    assert!(client.batch_execute("select 1").await.is_err());
    assert!(connect(&url).await.is_err());

    server.restart().await.unwrap();
    assert_eq!(server.url(), url);
    assert_eq!(count(&connect(&url).await.unwrap(), "select count(*) from t").await, 1);
}

#[tokio::test]
async fn restarting_a_running_server_ends_its_sessions_and_keeps_its_data() {
    let mut server = fast_server().await;
    let client = connect(&server.url()).await.unwrap();
    client.batch_execute("create table t as select 1 as n").await.unwrap();
    let before = server.pid();
    server.restart().await.unwrap();
    assert_ne!(server.pid(), before);
    assert!(client.batch_execute("select 1").await.is_err());
    let client = connect(&server.url()).await.unwrap();
    assert_eq!(count(&client, "select count(*) from t").await, 1);
}

#[tokio::test]
async fn a_wrong_password_is_refused() {
    let server = fast_server().await;
    let url = format!("postgres://postrider:guess@127.0.0.1:{}/postgres", server.port());
    let error = connect(&url).await.unwrap_err();
    assert_eq!(error.code().map(tokio_postgres::error::SqlState::code), Some("28P01"), "{error}");
}

#[tokio::test]
async fn a_server_that_does_not_come_up_shows_the_end_of_its_log() {
    let options = ServerOptions::fast_and_unsafe().setting("no_such_parameter", "1");
    let error = PrivateServer::start(options).await.unwrap_err();
    assert!(matches!(error, StartError::Ended { .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("unrecognized configuration parameter \"no_such_parameter\""), "{text}");
}

#[tokio::test]
async fn a_port_that_is_taken_is_named() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let options = ServerOptions::fast_and_unsafe().port(port);
    let text = PrivateServer::start(options).await.unwrap_err().to_string();
    assert!(text.contains(&format!("port {port} is taken")), "{text}");
}

#[tokio::test]
async fn many_servers_run_side_by_side() {
    let (one, two, three) = tokio::join!(fast_server(), fast_server(), fast_server());
    for server in [&one, &two, &three] {
        connect(&server.url()).await.unwrap();
    }
}
