//! From a row to what Redis needs to know of it.

use penstock_protocol::Status;
use penstock_queue::{QueueError, QueuedTask};
use penstock_store::TaskRow;

use crate::Recovery;

impl Recovery {
    /// What the queue needs to know of an accepted task that has lost `crashes` workers.
    #[must_use]
    pub fn queued_task(&self, row: &TaskRow, crashes: u32) -> QueuedTask {
        QueuedTask {
            key: row.key,
            user: row.user.clone(),
            thread: Some(row.thread),
            body_hash: row.body_hash,
            place: row.place.clone(),
            accepted_ms: row.accepted_ms,
            cost_tokens: u64::from(row.cost_tokens),
            attempt: row.attempt,
            is_quarantined: self.must_be_quarantined(crashes),
            agent: row.agent.clone(),
            delay_ms: row.delay_left_ms.unwrap_or(0),
        }
    }

    /// Whether a task that has lost `crashes` workers runs in the quarantine lane only.
    #[must_use]
    pub fn must_be_quarantined(&self, crashes: u32) -> bool {
        let least = self.settings.now().queue.quarantine_crashes_min;
        least > 0 && crashes >= least
    }

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

/// Workers that a task has lost, when the one that runs it is lost too: the next claim counts that crash, so `crashes` of
/// a running row is one behind.
#[must_use]
pub fn crashes_of(row: &TaskRow) -> u32 {
    row.crashes + u32::from(row.status == Status::Running)
}
