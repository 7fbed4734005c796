//! `postrider up`.

use nix::sys::signal::Signal;

use crate::program::{Running, command, end};

#[tokio::test]
async fn a_database_that_was_named_is_refused_wherever_the_flag_stands() {
    let url = "postgres://127.0.0.1:1/nowhere";
    for arguments in [["up", "--database-url", url], ["--database-url", url, "up"]] {
        end(command(&arguments)).await.code(2).complains("hint: ").complains("postrider serve");
    }
}

#[tokio::test]
async fn it_starts_a_server_of_its_own_and_finds_the_data_again() {
    let word = uuid::Uuid::new_v4().simple().to_string();
    let directory = std::env::temp_dir().join(format!("postrider-up-{word}"));
    let arguments = ["up", "--json", "--data-dir", directory.to_str().unwrap()];
    for run in ["first", "second"] {
        let mut up = Running::spawn(command(&arguments));
        let line = up.wait_for("database_url").await;
        let ready: serde_json::Value = serde_json::from_str(&line).unwrap();
        let url = ready["database_url"].as_str().unwrap();
        let list = ["types", "list", "--database-url", url];
        match run {
            "first" => {
                let declare = ["types", "declare", "order.placed", "--database-url", url];
                end(command(&declare)).await.code(0);
            }
            _ => {
                end(command(&list)).await.code(0).says("order.placed");
            }
        }
        up.signal(Signal::SIGTERM);
        assert_eq!(up.exit_code().await, 0);
        end(command(&list)).await.code(3);
    }
    std::fs::remove_dir_all(&directory).unwrap();
}
