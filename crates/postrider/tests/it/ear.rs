//! An ear at the channel on which writers and relays talk.

use tokio::sync::mpsc;

use crate::fixture::Fixture;

/// What is said on the channel of the schema from now on.
pub(crate) struct Ear {
    client: tokio_postgres::Client,
    heard: mpsc::UnboundedReceiver<String>,
}

impl Ear {
    pub(crate) async fn new(fixture: &Fixture) -> Self {
        let (client, mut connection) =
            tokio_postgres::connect(&fixture.db.url(), tokio_postgres::NoTls).await.unwrap();
        let (told, heard) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Some(Ok(message)) =
                std::future::poll_fn(|context| connection.poll_message(context)).await
            {
                if let tokio_postgres::AsyncMessage::Notification(notice) = message {
                    let _ = told.send(notice.payload().to_owned());
                }
            }
        });
        let channel = fixture.texts("select channel from postrider.wake_keys()").await;
        client.batch_execute(&format!("listen {}", channel[0])).await.unwrap();
        Self { client, heard }
    }

    /// Everything that was said before this call, in order.
    pub(crate) async fn heard(&mut self) -> Vec<String> {
        let end = "select pg_notify(channel, 'end') from postrider.wake_keys()";
        self.client.execute(end, &[]).await.unwrap();
        let mut words = Vec::new();
        while let Some(word) = self.heard.recv().await {
            if word == "end" {
                return words;
            }
            words.push(word);
        }
        panic!("the connection ended");
    }
}
