//! A queue as a process holds it: the connection, the keys of its shard, and the call of a verb.

use std::sync::Arc;

use redis::{Client, Cmd, FromRedisValue, Pipeline, Value, cmd};

use crate::library::library_source;
use crate::link::Link;
use crate::settings::ms;
use crate::shard::Keys;
use crate::{ConnectError, Library, QueueError, QueueSettings, Shard};

/// Pause before Redis is tried again at start.
const CONNECT_EVERY: std::time::Duration = std::time::Duration::from_millis(500);

/// Access to one shard of the queue. Cheap to clone; all clones share one connection.
#[derive(Clone, Debug)]
pub struct Queue {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    settings: QueueSettings,
    client: Client,
    link: Link,
    keys: Keys,
    library: Library,
}

impl Queue {
    /// Connects, judges the server, and loads the verbs. The connection is kept alive by a task of the caller's
    /// runtime: a thread with a runtime of its own makes its own `Queue`.
    pub async fn connect(settings: QueueSettings) -> Result<Self, ConnectError> {
        Self::connect_with(settings, Library::new(&library_source())).await
    }

    /// Connects, again and again while Redis is away, with one line in the log; cancel by dropping.
    ///
    /// Errors: the server is there and cannot be used.
    pub async fn connect_when_there(settings: QueueSettings) -> Result<Self, ConnectError> {
        let mut is_away = false;
        loop {
            match Self::connect(settings.clone()).await {
                Err(ConnectError::Queue(error)) if error.is_transient() => {
                    if !std::mem::replace(&mut is_away, true) {
                        tracing::warn!(%error, "waiting for Redis");
                    }
                    tokio::time::sleep(CONNECT_EVERY).await;
                }
                connected => return connected,
            }
        }
    }

    /// Connects with other verbs; tests prove with it that a broken verb is noticed.
    #[doc(hidden)]
    pub async fn connect_with(settings: QueueSettings, library: Library) -> Result<Self, ConnectError> {
        let client = Client::open(settings.url.as_str()).map_err(ConnectError::Url)?;
        let link = Link::connect(client.clone(), settings.connect_timeout)
            .await
            .map_err(|cause| QueueError::of("connect", cause))?;
        let keys = Keys::new(&settings.shard);
        let queue = Self { inner: Arc::new(Inner { settings, client, link, keys, library }) };
        queue.judge_server().await?;
        queue.load().await?;
        Ok(queue)
    }

    /// The shard that this queue works on.
    #[must_use]
    pub fn shard(&self) -> &Shard {
        &self.inner.settings.shard
    }

    /// What it was connected with.
    #[must_use]
    pub fn settings(&self) -> &QueueSettings {
        &self.inner.settings
    }

    /// Asks Redis for a sign of life.
    pub async fn ping(&self) -> Result<(), QueueError> {
        self.command("ping", &cmd("PING")).await.map(drop)
    }

    pub(crate) fn client(&self) -> &Client {
        &self.inner.client
    }

    pub(crate) fn library(&self) -> &Library {
        &self.inner.library
    }

    pub(crate) fn keys(&self) -> &Keys {
        &self.inner.keys
    }

    /// Starts the call of a verb: function, keys, event stream if any, and the time.
    pub(crate) fn verb(&self, name: &'static str, events: Option<&str>) -> Verb {
        let mut command = cmd("FCALL");
        command.arg(self.inner.library.function(name)).arg(self.inner.keys.fixed.len() + usize::from(events.is_some()));
        for key in &self.inner.keys.fixed {
            command.arg(key);
        }
        if let Some(events) = events {
            command.arg(events);
        }
        command.arg(self.inner.settings.virtual_clock.as_ref().map_or(0, crate::VirtualClock::now_ms));
        Verb { name, command }
    }

    /// Calls a verb. A server that does not know it (it was replaced) gets the library, then the call again.
    pub(crate) async fn call<T: FromRedisValue>(&self, verb: &Verb) -> Result<T, QueueError> {
        self.call_within(verb, self.inner.settings.call_timeout).await
    }

    pub(crate) async fn call_within<T: FromRedisValue>(
        &self,
        verb: &Verb,
        limit: std::time::Duration,
    ) -> Result<T, QueueError> {
        let value = match self.inner.link.send(verb.name, &verb.command, limit).await {
            Err(QueueError::Refused { cause, .. }) if cause.detail() == Some("Function not found") => {
                self.load().await?;
                self.inner.link.send(verb.name, &verb.command, limit).await?
            }
            other => other?,
        };
        self.answer(verb.name, value)
    }

    pub(crate) async fn command(&self, name: &'static str, command: &Cmd) -> Result<Value, QueueError> {
        self.inner.link.send(name, command, self.inner.settings.call_timeout).await
    }

    pub(crate) async fn commands(&self, name: &'static str, commands: &Pipeline) -> Result<Vec<Value>, QueueError> {
        self.inner.link.send_all(name, commands, self.inner.settings.call_timeout).await
    }

    pub(crate) fn answer<T: FromRedisValue>(&self, call: &'static str, value: Value) -> Result<T, QueueError> {
        T::from_redis_value(value).map_err(|error| QueueError::Answer { call, answer: error.to_string() })
    }

    async fn load(&self) -> Result<(), QueueError> {
        let mut load = cmd("FUNCTION");
        load.arg("LOAD").arg("REPLACE").arg(self.inner.library.source());
        self.command("function load", &load).await.map(drop)
    }
}

/// A call under construction.
pub(crate) struct Verb {
    name: &'static str,
    command: Cmd,
}

impl Verb {
    pub(crate) fn arg(mut self, argument: impl redis::ToRedisArgs) -> Self {
        self.command.arg(argument);
        self
    }

    pub(crate) fn arg_ms(self, duration: std::time::Duration) -> Self {
        self.arg(ms(duration))
    }
}
