//! Tasks whose worker fell silent: back in line, or ended for good.

use std::collections::HashMap;
use std::time::Duration;

use penstock_protocol::{Ending, ErrorCode, Event, Status};
use penstock_queue::{Fate, Finish, LostTask, ReapVerdict, Retry, RetryCause};
use penstock_store::TaskRow;

use crate::seen::store_seen;
use crate::{Recovery, RecoveryError, crashes_of};

impl Recovery {
    /// Takes care of lost tasks: rows are read first, in one SELECT.
    ///
    /// A row that has ended is published at once. A task that lost too many workers ends as failed. Every other one goes
    /// back to its old place, one attempt higher. Returns how many were taken care of.
    pub async fn recover(&self, lost: &[LostTask]) -> Result<u64, RecoveryError> {
        let keys: Vec<_> = lost.iter().map(|task| task.key).collect();
        let rows: HashMap<_, _> = self.store.tasks(&keys).await?.into_iter().map(|row| (row.key, row)).collect();
        let mut count = 0;
        for task in lost {
            let Some(row) = rows.get(&task.key) else {
                // Only after rows were removed by hand. Nothing can bring it back, so its stream ends here.
                let event = Event::RunError {
                    message: "the task has no row any more".to_owned(),
                    code: Some(ErrorCode::Internal),
                    usage: Vec::new(),
                };
                self.queue.close(task.key, task.attempt, &event.to_json()).await?;
                continue;
            };
            count += u64::from(self.recover_one(task, row).await?);
        }
        if let (Some(first), 1..) = (lost.first(), count) {
            tracing::warn!(count, first = %first.key, "tasks that lost their worker were taken care of");
        }
        Ok(count)
    }

    async fn recover_one(&self, task: &LostTask, row: &TaskRow) -> Result<bool, RecoveryError> {
        let crashes = crashes_of(row);
        let is_given_up = crashes >= self.settings.now().queue.crashes_max;
        let fate = if is_given_up || row.status.is_terminal() {
            Fate::Closes
        } else if self.must_be_quarantined(crashes) {
            Fate::WaitsInQuarantine
        } else {
            Fate::Waits
        };
        match self.queue.reap(task, &self.reaper, fate).await? {
            ReapVerdict::NotLost => return Ok(false),
            ReapVerdict::Requeued => {
                self.metrics.requeued.inc();
                self.metrics.unstarted.inc_by(u64::from(!task.has_started));
                self.metrics.quarantined.inc_by(u64::from(fate == Fate::WaitsInQuarantine));
                tracing::debug!(task.id = %task.key, attempt = task.attempt, "a task that lost its worker waits again");
            }
            ReapVerdict::Closing { attempt } => {
                if is_given_up && !row.status.is_terminal() {
                    let why = format!("{crashes} workers were lost while they ran this task");
                    let ending = Ending::failed(ErrorCode::AttemptsExhausted, why);
                    self.store.end_closing(task.key, attempt, &ending).await?;
                }
                self.close(task, attempt).await?;
            }
        }
        Ok(true)
    }

    /// Publishes what the row says, whoever ended it. A row that has not ended goes back in line: the caller's cancel,
    /// for whose sake Redis gave a closing attempt, did not come to pass.
    async fn close(&self, task: &LostTask, attempt: u32) -> Result<(), RecoveryError> {
        let Some(row) = self.store.task(task.key).await? else { return Ok(()) };
        let (key, worker) = (task.key, &self.reaper);
        let Some(event) = row.terminal_event() else {
            let cause = RetryCause::HandedBack;
            let retry = Retry { key, attempt, worker, delay: Duration::ZERO, cost_tokens: None, cause };
            self.queue.retry(&retry).await?;
            return Ok(());
        };
        if row.status == Status::Cancelled && row.result.is_none() {
            store_seen(&self.queue, &self.store, key, task.attempt).await?;
        }
        let finish = Finish { key, attempt, worker, cost_tokens: None, input_tokens: 0, last_seq: 0, event: &event };
        self.queue.finish(&finish).await?;
        self.metrics.closed.inc();
        tracing::debug!(task.id = %key, status = row.status.as_str(), "the end of a task that lost its worker was published");
        Ok(())
    }
}
