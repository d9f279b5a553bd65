//! What beats find and MySQL must decide: tasks that Redis forgot, and tasks of silent workers.

use penstock_protocol::{Status, TaskKey};
use penstock_queue::Adoption;
use penstock_recovery::RecoveryError;
use tokio::sync::mpsc;

use crate::claim::{Finding, Stop};
use crate::parts::Parts;

/// Heeds findings until the heartbeat ends.
pub(crate) async fn heed(parts: Parts, mut findings: mpsc::Receiver<Finding>) {
    while let Some(finding) = findings.recv().await {
        let heeded = match finding {
            Finding::Forgotten { key, attempt } => adopt(&parts, key, attempt).await,
            Finding::Lost(lost) => parts.recovery.recover(&lost).await.map(|count| {
                parts.metrics.recovered.inc_by(count);
            }),
        };
        if let Err(error) = heeded {
            // The next beat finds it again.
            tracing::debug!(%error, "a finding of the heartbeat waits");
        }
    }
}

/// Takes a task back that runs here and that Redis forgot (law 3: a flush costs a live worker nothing).
async fn adopt(parts: &Parts, key: TaskKey, attempt: u32) -> Result<(), RecoveryError> {
    let Some(last_n) = parts.leases.last_n(key, attempt) else { return Ok(()) };
    let Some(row) = parts.store.task(key).await? else {
        parts.leases.stop(key, attempt, Stop::Lost);
        return Ok(());
    };
    let is_mine = row.attempt == attempt && row.worker.as_deref() == Some(parts.worker.as_str());
    match row.status {
        Status::Running if is_mine => {
            let (task, worker) = (parts.recovery.queued_task(&row, row.crashes), &parts.worker);
            if parts.queue.adopt(&Adoption { task: &task, attempt, worker, last_n }).await? {
                parts.metrics.adopted.inc();
                tracing::debug!(task.id = %key, attempt, "a task that Redis had forgotten was taken back");
            } else {
                parts.leases.stop(key, attempt, Stop::Lost);
            }
        }
        Status::Cancelled if row.attempt == attempt => parts.leases.stop(key, attempt, Stop::Cancelled),
        // Its own end is stored and about to be published.
        _ if row.status.is_terminal() && is_mine => {}
        _ => parts.leases.stop(key, attempt, Stop::Lost),
    }
    Ok(())
}
