//! The mailbox of idle slots, read by a worker on a connection of its own: a blocking read stalls every clone.
//!
//! An entry that was read and not started is handed out again after one lease, so a reader may die at any point.

use std::time::Duration;

use penstock_protocol::TaskKey;
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{Cmd, FromRedisValue, RedisResult, Value, cmd};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::{Queue, QueueError, WorkerId, link};

/// A task handed to this worker: claim `attempt` in MySQL, then start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadyEntry {
    /// Tenant and id.
    pub key: TaskKey,
    /// Attempt number to claim.
    pub attempt: u32,
    /// Id of the entry.
    pub entry: String,
}

/// Longest time that one read blocks in Redis.
const BLOCK_MS_MAX: u64 = 5000;
/// Time beyond the block after which the connection is taken for dead.
const ANSWER_GRACE: Duration = Duration::from_secs(2);
/// How long a read that was told to stop is waited for, so that nothing it was just given is lost for a lease.
const STOP_GRACE: Duration = Duration::from_millis(500);

/// Reads handed-out tasks as one consumer of the group.
pub struct ReadyReader {
    queue: Queue,
    worker: WorkerId,
    connection: Option<(MultiplexedConnection, i64)>,
}

impl std::fmt::Debug for ReadyReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReadyReader").field("worker", &self.worker).finish_non_exhaustive()
    }
}

impl Queue {
    /// A reader for `worker`. It connects when it first reads.
    #[must_use]
    pub fn ready_reader(&self, worker: WorkerId) -> ReadyReader {
        ReadyReader { queue: self.clone(), worker, connection: None }
    }
}

impl ReadyReader {
    /// Waits up to 5 s for at most `count` tasks. Empty: none came, or `stop` was cancelled (within 0.5 s).
    ///
    /// A lost group or connection is made anew. Errors: `Unavailable`, `Slow`; wait a moment and read again.
    /// Not cancel-safe: a dropped read may have been given tasks, which come back after one lease; use `stop`.
    pub async fn read(&mut self, count: usize, stop: &CancellationToken) -> Result<Vec<ReadyEntry>, QueueError> {
        self.read_within(count, Some(BLOCK_MS_MAX), stop).await
    }

    /// Takes at most `count` tasks that are there now.
    pub async fn read_now(&mut self, count: usize) -> Result<Vec<ReadyEntry>, QueueError> {
        self.read_within(count, None, &CancellationToken::new()).await
    }

    async fn read_within(
        &mut self,
        count: usize,
        block_ms: Option<u64>,
        stop: &CancellationToken,
    ) -> Result<Vec<ReadyEntry>, QueueError> {
        if stop.is_cancelled() || count == 0 {
            return Ok(Vec::new());
        }
        let mut read = cmd("XREADGROUP");
        read.arg("GROUP").arg("workers").arg(self.worker.as_str()).arg("COUNT").arg(count);
        if let Some(block_ms) = block_ms {
            read.arg("BLOCK").arg(block_ms);
        }
        read.arg("STREAMS").arg(self.queue.keys().ready()).arg(">");

        let (mut connection, client_id) = self.connection().await?;
        let limit = Duration::from_millis(block_ms.unwrap_or(0)) + ANSWER_GRACE;
        let answer = {
            let reading = timeout(limit, connection.req_packed_command(&read));
            tokio::pin!(reading);
            tokio::select! {
                answer = &mut reading => answer,
                () = stop.cancelled() => {
                    let mut unblock = cmd("CLIENT");
                    unblock.arg("UNBLOCK").arg(client_id);
                    let last = async {
                        drop(self.queue.command("client unblock", &unblock).await);
                        reading.await
                    };
                    timeout(STOP_GRACE, last).await.and_then(|answer| answer)
                }
            }
        };
        match answer.map(|answer| answer.and_then(Value::extract_error)) {
            Ok(Ok(value)) => self.entries(value),
            Ok(Err(cause)) if cause.code() == Some("NOGROUP") => {
                // The group was destroyed: made anew it starts from the first entry, and claims tell doubles apart.
                // If more was lost than the group, the census finds it.
                self.queue.make_group().await?;
                Ok(Vec::new())
            }
            Ok(Err(cause)) => {
                self.connection = None;
                Err(QueueError::of("xreadgroup", cause))
            }
            Err(_) if stop.is_cancelled() => {
                self.connection = None;
                Ok(Vec::new())
            }
            Err(_) => {
                self.connection = None;
                Err(QueueError::Slow { waited_ms: crate::settings::ms(limit) })
            }
        }
    }

    async fn connection(&mut self) -> Result<(MultiplexedConnection, i64), QueueError> {
        if let Some(open) = &self.connection {
            return Ok(open.clone());
        }
        let limit = self.queue.settings().connect_timeout;
        let open = async {
            let mut connection = link::open(self.queue.client(), limit).await?;
            let id: i64 = client_id(&mut connection).await?;
            RedisResult::Ok((connection, id))
        };
        let opened = timeout(limit * 2, open)
            .await
            .map_err(|_| QueueError::Slow { waited_ms: crate::settings::ms(limit * 2) })?
            .map_err(|cause| QueueError::of("connect", cause))?;
        self.connection = Some(opened.clone());
        Ok(opened)
    }

    fn entries(&self, value: Value) -> Result<Vec<ReadyEntry>, QueueError> {
        type Entries = Vec<(String, Vec<String>)>;
        let streams: Option<Vec<(String, Entries)>> = self.queue.answer("xreadgroup", value)?;
        let entries = streams.into_iter().flatten().flat_map(|(_, entries)| entries);
        Ok(entries
            .filter_map(|(entry, fields)| match &fields[..] {
                [t, id, a, attempt] if t == "t" && a == "a" => {
                    Some(ReadyEntry { key: id.parse().ok()?, attempt: attempt.parse().ok()?, entry })
                }
                _ => None,
            })
            .collect())
    }
}

impl Queue {
    async fn make_group(&self) -> Result<(), QueueError> {
        let mut create = cmd("XGROUP");
        create.arg("CREATE").arg(self.keys().ready()).arg("workers").arg(0).arg("MKSTREAM");
        match self.command("xgroup create", &create).await {
            // Another reader was faster.
            Err(QueueError::Refused { cause, .. }) if cause.code() == Some("BUSYGROUP") => Ok(()),
            other => other.map(drop),
        }
    }
}

async fn client_id(connection: &mut MultiplexedConnection) -> RedisResult<i64> {
    let value = connection.req_packed_command(&Cmd::clone(cmd("CLIENT").arg("ID"))).await?.extract_error()?;
    Ok(i64::from_redis_value(value)?)
}
