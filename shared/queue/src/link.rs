//! One multiplexed connection that mends itself.
//!
//! A keeper task owns the connection and makes a new one when callers report that it broke, with growing pauses. Every
//! call has its own time limit; a call that was under way when the connection broke is sent again, since every verb may
//! be repeated. A connection that answers nobody for a while is taken for dead (a lost peer sends no RST).
//! Blocking commands never come here: they would stall every clone.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{AsyncConnectionConfig, Client, Cmd, ErrorKind, Pipeline, RedisError, RedisResult, Value};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, timeout_at};

use crate::QueueError;
use crate::settings::ms;

/// Without any answer for this long, and with callers waiting, a connection is replaced.
const SILENT_MAX: Duration = Duration::from_secs(3);
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_millis(1000);
/// How often one call is sent; the second time only after a broken connection.
const SENDS_MAX: u32 = 3;

#[derive(Clone)]
struct Live {
    generation: u64,
    connection: MultiplexedConnection,
}

#[derive(Clone)]
pub(crate) struct Link {
    live: watch::Receiver<Option<Live>>,
    broken: mpsc::Sender<u64>,
    clock: Arc<Answers>,
}

/// When the last answer came, in ms since the link was made.
struct Answers {
    start: Instant,
    last_ms: AtomicU64,
}

impl Answers {
    fn now_ms(&self) -> u64 {
        ms(self.start.elapsed())
    }
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Link")
    }
}

impl Link {
    /// Connects; the first connection must succeed. The keeper lives on the runtime of the caller.
    pub(crate) async fn connect(client: Client, connect_timeout: Duration) -> RedisResult<Self> {
        let connection = open(&client, connect_timeout).await?;
        let (set_live, live) = watch::channel(Some(Live { generation: 0, connection }));
        let (broken, reports) = mpsc::channel(64);
        let clock = Arc::new(Answers { start: Instant::now(), last_ms: AtomicU64::new(0) });
        tokio::spawn(keep(client, connect_timeout, set_live, reports, Arc::clone(&clock)));
        Ok(Self { live, broken, clock })
    }

    /// Sends one command. Cancel-safe: dropped before the answer, the command may still have worked.
    pub(crate) async fn send(&self, call: &'static str, command: &Cmd, limit: Duration) -> Result<Value, QueueError> {
        self.run(
            call,
            limit,
            |mut connection| async move { connection.req_packed_command(command).await?.extract_error() },
        )
        .await
    }

    /// Sends a pipeline; each command's error stands in its place in the answer.
    pub(crate) async fn send_all(
        &self,
        call: &'static str,
        commands: &Pipeline,
        limit: Duration,
    ) -> Result<Vec<Value>, QueueError> {
        let count = commands.len();
        self.run(call, limit, |mut connection| async move { connection.req_packed_commands(commands, 0, count).await })
            .await
    }

    async fn run<T, F>(
        &self,
        call: &'static str,
        limit: Duration,
        send: impl Fn(MultiplexedConnection) -> F,
    ) -> Result<T, QueueError>
    where
        F: Future<Output = RedisResult<T>>,
    {
        let deadline = Instant::now() + limit;
        let slow = || QueueError::Slow { waited_ms: ms(limit) };
        let (mut sends, mut generation_min) = (1, 0);
        loop {
            let live = timeout_at(deadline, self.connection(generation_min)).await.map_err(|_| slow())??;
            match timeout_at(deadline, send(live.connection)).await {
                Err(_) => {
                    if self.clock.now_ms().saturating_sub(self.clock.last_ms.load(Ordering::Relaxed)) > ms(SILENT_MAX) {
                        self.report(live.generation);
                    }
                    return Err(slow());
                }
                Ok(Ok(answer)) => {
                    self.clock.last_ms.store(self.clock.now_ms(), Ordering::Relaxed);
                    return Ok(answer);
                }
                Ok(Err(cause)) if cause.is_unrecoverable_error() => {
                    self.report(live.generation);
                    if sends >= SENDS_MAX {
                        return Err(QueueError::of(call, cause));
                    }
                    (sends, generation_min) = (sends + 1, live.generation + 1);
                }
                Ok(Err(cause)) => {
                    self.clock.last_ms.store(self.clock.now_ms(), Ordering::Relaxed);
                    return Err(QueueError::of(call, cause));
                }
            }
        }
    }

    /// The connection, once it is not older than `generation_min`.
    async fn connection(&self, generation_min: u64) -> Result<Live, QueueError> {
        let mut live = self.live.clone();
        let is_fit = |live: &Option<Live>| live.as_ref().is_some_and(|live| live.generation >= generation_min);
        let found = live.wait_for(is_fit).await.ok().and_then(|found| found.clone());
        let gone = || RedisError::from((ErrorKind::Io, "the keeper of the connection is gone"));
        found.ok_or_else(|| QueueError::Unavailable(gone()))
    }

    fn report(&self, generation: u64) {
        // A full channel means that the keeper has enough reports of it.
        let _ = self.broken.try_send(generation);
    }
}

async fn keep(
    client: Client,
    connect_timeout: Duration,
    live: watch::Sender<Option<Live>>,
    mut reports: mpsc::Receiver<u64>,
    clock: Arc<Answers>,
) {
    let mut generation = 0;
    while let Some(reported) = reports.recv().await {
        if reported != generation {
            continue;
        }
        live.send_replace(None);
        let mut pause = PAUSE_MIN;
        loop {
            match open(&client, connect_timeout).await {
                Ok(connection) => {
                    generation += 1;
                    clock.last_ms.store(clock.now_ms(), Ordering::Relaxed);
                    live.send_replace(Some(Live { generation, connection }));
                    break;
                }
                Err(error) => {
                    if pause == PAUSE_MIN {
                        tracing::warn!(%error, "redis is unreachable, trying again");
                    }
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(PAUSE_MAX);
                }
            }
            if live.is_closed() {
                return;
            }
        }
    }
}

/// A connection without a time limit of its own: each call brings one.
pub(crate) async fn open(client: &Client, connect_timeout: Duration) -> RedisResult<MultiplexedConnection> {
    let config = AsyncConnectionConfig::new().set_connection_timeout(Some(connect_timeout)).set_response_timeout(None);
    client.get_multiplexed_async_connection_with_config(&config).await
}
