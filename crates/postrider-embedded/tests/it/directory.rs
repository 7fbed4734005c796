//! Servers in a directory that is kept.

use crate::{Scratch, connect, count};
use postrider_embedded::{PrivateServer, StartError};
use std::os::unix::fs::PermissionsExt as _;

#[tokio::test]
async fn a_directory_is_used_again_with_its_data_and_password() {
    let scratch = Scratch::new("kept");
    let first = PrivateServer::start(scratch.options()).await.unwrap();
    let client = connect(&first.url()).await.unwrap();
    client.batch_execute("create table t as select 1 as n").await.unwrap();
    let port = first.port();
    first.stop().await.unwrap();

    let password = scratch.path().join("password");
    let mode = std::fs::metadata(&password).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    let second = PrivateServer::start(scratch.options().port(port)).await.unwrap();
    let client = connect(&second.url()).await.unwrap();
    assert_eq!(count(&client, "select count(*) from t").await, 1);
    assert_eq!(second.port(), port);
}

#[tokio::test]
async fn data_of_another_major_version_are_left_alone() {
    let scratch = Scratch::new("version");
    let server = PrivateServer::start(scratch.options()).await.unwrap();
    let version_file = server.data_dir().join("PG_VERSION");
    server.stop().await.unwrap();
    std::fs::write(&version_file, "11\n").unwrap();

    let error = PrivateServer::start(scratch.options()).await.unwrap_err();
    assert!(matches!(error, StartError::OtherVersion { .. }), "{error:?}");
    assert!(error.to_string().contains("are of PostgreSQL 11"), "{error}");
    assert!(version_file.exists());
}

#[tokio::test]
async fn two_servers_do_not_share_a_directory() {
    let scratch = Scratch::new("shared");
    let first = PrivateServer::start(scratch.options()).await.unwrap();
    let error = PrivateServer::start(scratch.options()).await.unwrap_err();
    assert!(matches!(error, StartError::AlreadyRunning { .. }), "{error:?}");
    // The refusal must not have harmed the first.
    connect(&first.url()).await.unwrap();
}

#[tokio::test]
async fn a_directory_with_other_things_in_it_is_refused() {
    let scratch = Scratch::new("foreign");
    std::fs::create_dir(scratch.path()).unwrap();
    std::fs::write(scratch.path().join("thesis.tex"), "x").unwrap();
    let error = PrivateServer::start(scratch.options()).await.unwrap_err();
    assert!(matches!(error, StartError::Directory { .. }), "{error:?}");
    assert!(error.to_string().contains("thesis.tex"), "{error}");
    assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 1);
}

#[tokio::test]
async fn an_unfinished_cluster_is_made_anew() {
    let scratch = Scratch::new("unfinished");
    let making = scratch.path().join("data.new");
    std::fs::create_dir_all(&making).unwrap();
    std::fs::write(making.join("PG_VERSION"), "15\n").unwrap();
    let server = PrivateServer::start(scratch.options()).await.unwrap();
    connect(&server.url()).await.unwrap();
    assert!(!making.exists());
}
