//! From a row to what Redis needs to know of it.

use penstock_queue::{QueueError, QueuedTask};
use penstock_store::TaskRow;

use crate::Recovery;

/// What the queue needs to know of an accepted task.
#[must_use]
pub fn queued_task(row: &TaskRow) -> QueuedTask {
    QueuedTask {
        key: row.key,
        user: row.user.clone(),
        thread: Some(row.thread),
        body_hash: row.body_hash,
        place: row.place.clone(),
        accepted_ms: row.accepted_ms,
        cost_tokens: u64::from(row.cost_tokens),
        attempt: row.attempt,
        share: None,
    }
}

impl Recovery {
    /// Publishes the end that a row says, wherever Redis thinks the task is. False where Redis knew it, and for a row that
    /// has not ended.
    pub async fn publish(&self, row: &TaskRow) -> Result<bool, QueueError> {
        let Some(event) = row.terminal_event() else { return Ok(false) };
        let is_news = self.queue.close(row.key, row.attempt, &event).await?;
        if is_news {
            self.metrics.closed.inc();
        }
        Ok(is_news)
    }
}
