//! The claim in MySQL, then the start in Redis: after both, the attempt is this worker's.

use std::time::Duration;

use penstock_config::Settings;
use penstock_protocol::{Ending, ErrorCode, Event, Status};
use penstock_queue::{QueueError, ReadyEntry, StartVerdict};
use penstock_recovery::crashes_of;
use penstock_store::{Claimed, End, StoreError, TaskRow};
use tokio::time::Instant;

use super::Lease;
use crate::parts::Parts;

/// Pause before a step that was not answered is tried again.
const RETRY_EVERY: Duration = Duration::from_millis(200);

/// An attempt that this worker owns and that has begun.
#[derive(Debug)]
pub(crate) struct Claim {
    row: TaskRow,
    started_seq: u64,
    last_moment: Instant,
}

impl Claim {
    /// The task as it was claimed.
    pub(crate) fn row(&self) -> &TaskRow {
        &self.row
    }

    /// Number of the attempt.
    pub(crate) fn attempt(&self) -> u32 {
        self.row.attempt
    }

    /// Sequence number of the event that opened the attempt.
    pub(crate) fn started_seq(&self) -> u64 {
        self.started_seq
    }

    /// When the attempt is over, whatever it does: the task's own deadline, or the longest life of an attempt.
    pub(crate) fn last_moment(&self) -> Instant {
        self.last_moment
    }

    /// Whether an earlier attempt of the same run wrote events.
    pub(crate) fn is_resumed(&self) -> bool {
        self.started_seq > 1
    }
}

/// Makes the attempt of `entry` this worker's own. `None`: there is nothing to run; whatever had to be said was said.
///
/// Unanswered steps are tried again for one lease; after that the entry counts as lost and comes back one attempt higher.
pub(crate) async fn take(parts: &Parts, settings: &Settings, entry: &ReadyEntry) -> Option<(Claim, Lease)> {
    let give_up = Instant::now() + settings.queue.lease;
    let row = claim(parts, entry, give_up).await?;
    if let Some(ending) = end_before_start(settings, &row) {
        end_unstarted(parts, &row, ending).await;
        return None;
    }
    let opening = Event::run_started(row.thread, row.key.task).to_json();
    loop {
        match parts.queue.start(entry, &parts.worker, &opening).await {
            Ok(StartVerdict::Running { seq }) => {
                let last_moment = last_moment(settings, &row);
                let lease = parts.leases.hold(row.key, row.attempt, last_moment + 2 * settings.worker.stop_grace);
                return Some((Claim { row, started_seq: seq, last_moment }, lease));
            }
            // The reaper was faster: another attempt is on its way.
            Ok(StartVerdict::Stale) => return None,
            Ok(StartVerdict::Sealed) => {
                let why = "its event stream is ahead of MySQL; was MySQL restored from a backup?";
                end_unstarted(parts, &row, Ending::failed(ErrorCode::Internal, why)).await;
                return None;
            }
            Err(error) if error.is_transient() && Instant::now() < give_up => tokio::time::sleep(RETRY_EVERY).await,
            Err(error) => {
                tracing::warn!(task.id = %row.key, %error, "a claimed task could not be started; it comes back");
                return None;
            }
        }
    }
}

fn last_moment(settings: &Settings, row: &TaskRow) -> Instant {
    let longest = settings.worker.attempt_max;
    Instant::now() + row.deadline_left_ms.map_or(longest, Duration::from_millis).min(longest)
}

async fn claim(parts: &Parts, entry: &ReadyEntry, give_up: Instant) -> Option<TaskRow> {
    loop {
        match parts.store.claim(entry.key, entry.attempt, parts.worker.as_str()).await {
            Ok(Claimed::Mine(row)) => return Some(*row),
            Ok(refused) => {
                if let Err(error) = set_right(parts, entry, refused).await {
                    tracing::warn!(task.id = %entry.key, %error, "a refused claim could not be set right; it comes back");
                }
                return None;
            }
            Err(error) => {
                let may_mend = matches!(*error, StoreError::Unavailable(_) | StoreError::Busy);
                if !may_mend || Instant::now() >= give_up {
                    tracing::warn!(task.id = %entry.key, %error, "a task could not be claimed; it comes back");
                    return None;
                }
                tokio::time::sleep(RETRY_EVERY).await;
            }
        }
    }
}

/// Brings Redis in line with the row that refused the claim.
async fn set_right(parts: &Parts, entry: &ReadyEntry, refused: Claimed) -> Result<(), QueueError> {
    match refused {
        Claimed::Mine(_) => {}
        Claimed::Ended(row) => {
            parts.recovery.publish(&row).await?;
        }
        Claimed::Ahead(row) => {
            let quarantine = parts.recovery.must_be_quarantined(crashes_of(&row));
            parts.queue.raise(entry, row.attempt, quarantine).await?;
        }
        Claimed::Unknown => {
            tracing::error!(task.id = %entry.key, "a task in the queue has no row in MySQL; it is closed");
            let message = "the task has no row any more".to_owned();
            let event = Event::RunError { message, code: Some(ErrorCode::Internal), usage: Vec::new() };
            parts.queue.close(entry.key, entry.attempt, &event.to_json()).await?;
        }
    }
    Ok(())
}

/// Why a claimed task need not start at all.
fn end_before_start(settings: &Settings, row: &TaskRow) -> Option<Ending> {
    if row.deadline_left_ms == Some(0) {
        let error = Some((ErrorCode::Deadline, "the deadline passed before a worker was free".to_owned()));
        return Some(Ending { status: Status::Expired, result: None, error, usage: Vec::new() });
    }
    if row.crashes >= settings.queue.crashes_max {
        let why = format!("{} workers were lost while they ran this task", row.crashes);
        return Some(Ending::failed(ErrorCode::AttemptsExhausted, why));
    }
    if !settings.agents.contains_key(&row.agent) {
        let why = format!("this worker's settings have no agent named `{}`", row.agent);
        return Some(Ending::failed(ErrorCode::UnknownAgent, why));
    }
    None
}

async fn end_unstarted(parts: &Parts, row: &TaskRow, ending: Ending) {
    let is_dead = ending.error.as_ref().is_some_and(|(code, _)| *code == ErrorCode::AttemptsExhausted);
    let end = End { key: row.key, attempt: row.attempt, ending, model: None, model_calls: 0 };
    let ended = if is_dead { parts.store.end_as_dead_letter(end).await } else { parts.store.end(end).await };
    let stored = match ended {
        Ok(_) => parts.store.task(row.key).await,
        Err(error) => {
            tracing::warn!(task.id = %row.key, %error, "an end could not be stored; the task comes back");
            return;
        }
    };
    let published = match stored {
        Ok(Some(row)) => parts.recovery.publish(&row).await,
        _ => return,
    };
    if let Err(error) = published {
        tracing::warn!(task.id = %row.key, %error, "an end could not be published yet; recovery does it");
    }
}
