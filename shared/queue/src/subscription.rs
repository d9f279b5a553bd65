//! One pub/sub channel on a connection of its own, which is made anew whenever it breaks.
//!
//! Messages sent while there was no connection are lost: the reader is told by `Signal::Reconnected`, and looks.

use std::time::Duration;

use futures_util::StreamExt;
use redis::Client;
use redis::aio::{PubSubSink, PubSubStream};
use tokio::time::{sleep, timeout};

/// A silent connection is asked for a sign of life this often.
const PING_EVERY: Duration = Duration::from_secs(10);
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(1);

pub(crate) enum Signal {
    Message(String),
    Reconnected,
}

pub(crate) struct Subscription {
    client: Client,
    channel: String,
    connect_timeout: Duration,
    open: Option<(PubSubSink, PubSubStream)>,
}

impl Subscription {
    /// Subscribed when it returns.
    pub(crate) async fn open(client: Client, channel: String, connect_timeout: Duration) -> redis::RedisResult<Self> {
        let mut subscription = Self { client, channel, connect_timeout, open: None };
        subscription.open = Some(subscription.subscribe().await?);
        Ok(subscription)
    }

    /// The next message, or the word that the connection was made anew. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Signal {
        let mut pause = PAUSE_MIN;
        loop {
            let Some((sink, stream)) = &mut self.open else {
                match self.subscribe().await {
                    Ok(open) => {
                        self.open = Some(open);
                        return Signal::Reconnected;
                    }
                    Err(error) => {
                        if pause == PAUSE_MIN {
                            tracing::warn!(%error, channel = self.channel, "subscription lost, trying again");
                        }
                        sleep(pause).await;
                        pause = (pause * 2).min(PAUSE_MAX);
                        continue;
                    }
                }
            };
            match timeout(PING_EVERY, stream.next()).await {
                Ok(Some(message)) => {
                    return Signal::Message(String::from_utf8_lossy(message.get_payload_bytes()).into_owned());
                }
                Ok(None) => self.open = None,
                Err(_) => {
                    let answered = timeout(self.connect_timeout, sink.ping::<redis::Value>()).await;
                    if !matches!(answered, Ok(Ok(_))) {
                        self.open = None;
                    }
                }
            }
        }
    }

    async fn subscribe(&self) -> redis::RedisResult<(PubSubSink, PubSubStream)> {
        let slow = |_| redis::RedisError::from(std::io::Error::from(std::io::ErrorKind::TimedOut));
        let open = async {
            let mut pubsub = self.client.get_async_pubsub().await?;
            pubsub.subscribe(&self.channel).await?;
            Ok(pubsub.split())
        };
        timeout(self.connect_timeout, open).await.map_err(slow)?
    }
}
