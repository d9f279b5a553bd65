//! Tasks whose last watcher has left and that are to be cancelled for it. Beside the queue's keys: `gone`, a zset of
//! task → ms at which it is due, by Redis time (law 11).
//!
//! The door that saw the last of its watchers leave notes the task; every door takes those off the list again that it has
//! a watcher of. A note that is lost (a flush) cancels nothing: the task then runs to its own end.

use std::time::Duration;

use penstock_protocol::TaskKey;
use redis::cmd;

use crate::settings::ms;
use crate::{Queue, QueueError};

/// A task on the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone {
    /// The task.
    pub key: TaskKey,
    /// Whether its time is over.
    pub is_due: bool,
}

impl Queue {
    /// Notes tasks whose watchers left now; they are due after `grace`. The caller bounds `keys`.
    pub async fn note_gone(&self, keys: &[TaskKey], grace: Duration) -> Result<(), QueueError> {
        if keys.is_empty() {
            return Ok(());
        }
        let due_ms = self.redis_ms().await? + ms(grace);
        let mut add = cmd("ZADD");
        // A later departure counts.
        add.arg(self.gone_key()).arg("GT");
        for key in keys {
            add.arg(due_ms).arg(key.to_string());
        }
        self.command("zadd", &add).await.map(drop)
    }

    /// At most `count` tasks of the list, the ones that are due first.
    pub async fn gone(&self, count: usize) -> Result<Vec<Gone>, QueueError> {
        let mut read = cmd("ZRANGE");
        read.arg(self.gone_key()).arg(0).arg(count.saturating_sub(1)).arg("WITHSCORES");
        let noted: Vec<(String, f64)> = self.answer("zrange", self.command("zrange", &read).await?)?;
        if noted.is_empty() {
            return Ok(Vec::new());
        }
        let now_ms = self.redis_ms().await? as f64;
        let gone = |(id, due_ms): (String, f64)| Some(Gone { key: id.parse().ok()?, is_due: due_ms <= now_ms });
        Ok(noted.into_iter().filter_map(gone).collect())
    }

    /// Takes a task off the list. Of all who try, one is told that it was there: that one acts.
    pub async fn take_gone(&self, key: TaskKey) -> Result<bool, QueueError> {
        let mut take = cmd("ZREM");
        take.arg(self.gone_key()).arg(key.to_string());
        let taken: i64 = self.answer("zrem", self.command("zrem", &take).await?)?;
        Ok(taken == 1)
    }

    async fn redis_ms(&self) -> Result<u64, QueueError> {
        let (seconds, micros): (u64, u64) = self.answer("time", self.command("time", &cmd("TIME")).await?)?;
        Ok(seconds * 1000 + micros / 1000)
    }

    fn gone_key(&self) -> String {
        format!("{}gone", self.shard().prefix())
    }
}
