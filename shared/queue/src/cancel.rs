//! Publishing an end that the row says, from outside the attempt.

use penstock_protocol::TaskKey;

use crate::{Queue, QueueError};

/// What became of a cancel. The row is cancelled in each case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelVerdict {
    /// The task did not run; its end is published.
    Ended,
    /// It runs: its worker was told, and publishes the end.
    Flagged,
    /// Its end was published already.
    Already,
    /// Redis did not know the task, or only as registered; its end is published.
    Unknown,
}

impl Queue {
    /// Publishes a cancel that MySQL stored. `attempt` is the row's; `event` the terminal event built from it.
    pub async fn cancel(&self, key: TaskKey, attempt: u32, event: &str) -> Result<CancelVerdict, QueueError> {
        match self.publish_end("cancel", key, attempt, event).await? {
            1 => Ok(CancelVerdict::Ended),
            2 => Ok(CancelVerdict::Flagged),
            0 => Ok(CancelVerdict::Already),
            3 | 4 => Ok(CancelVerdict::Unknown),
            other => Err(QueueError::Answer { call: "cancel", answer: format!("code {other}") }),
        }
    }

    /// Publishes the end of a task whose row is terminal, wherever Redis thinks the task is. Returns whether it had
    /// not ended in Redis before.
    pub async fn close(&self, key: TaskKey, attempt: u32, event: &str) -> Result<bool, QueueError> {
        Ok(self.publish_end("close", key, attempt, event).await? == 1)
    }

    async fn publish_end(
        &self,
        verb: &'static str,
        key: TaskKey,
        attempt: u32,
        event: &str,
    ) -> Result<i64, QueueError> {
        let events = self.shard().events(key);
        let verb = self
            .verb(verb, Some(&events))
            .arg(key.to_string())
            .arg(attempt)
            .arg_ms(self.settings().events_keep)
            .arg(event);
        self.call(&verb).await
    }
}
