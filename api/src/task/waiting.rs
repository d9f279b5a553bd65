//! Why a task is not progressing, how many are before it, and how long it may take: as far as the queue knows.

use penstock_protocol::{Status, TaskKey};
use penstock_queue::{Obstacle, Position, State};
use serde::Serialize;
use utoipa::ToSchema;

use crate::app::App;

/// Why a task waits. The list is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum WaitReason {
    /// Other tasks are served first.
    InLine,
    /// No worker is there to take tasks.
    NoWorkers,
    /// As many of the tenant's tasks run as may.
    TenantCap,
    /// The tenant has started as many tasks as its start rate allows.
    StartRate,
    /// Another task of its thread has not ended.
    ThreadBusy,
    /// An operator paused the queue, the tenant or the agent; or the task waits for a person's answer.
    Paused,
    /// It lost workers before, and runs once no other such task does.
    Quarantined,
    /// It is to start later: a retry after its pause, or a scheduled start.
    Delayed,
    /// Every provider of its model is tripped.
    #[expect(dead_code, reason = "breakers belong to workers; see `Waiting::at` for the place where their trips show")]
    ProviderTripped,
    /// A worker is about to start it.
    Starting,
    /// It is accepted and will be queued within moments.
    NotQueuedYet,
    /// The queue is being rebuilt; nothing is lost.
    QueueRebuilding,
    /// The queue does not answer, so nothing more is known.
    QueueSilent,
}

/// Where a waiting task stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    /// Why it waits.
    pub(crate) reason: WaitReason,
    /// Estimate of the tasks that are served before it.
    pub(crate) position: Option<u64>,
    /// Estimate of its wait for a worker.
    pub(crate) wait_ms: Option<u64>,
}

impl Waiting {
    /// What there is to say of a task with `status`; `None` of one that runs or has ended.
    pub(crate) async fn of(app: &App, key: TaskKey, status: Status) -> Option<Self> {
        let nothing_known = |reason| Self { reason, position: None, wait_ms: None };
        match status {
            Status::Queued => {}
            Status::Paused => return Some(nothing_known(WaitReason::Paused)),
            Status::Running | Status::Succeeded | Status::Failed | Status::Cancelled | Status::Expired => return None,
        }
        match app.queue.position(key).await {
            Ok(position) => Some(Self::at(position)),
            Err(_) => Some(nothing_known(WaitReason::QueueSilent)),
        }
    }

    /// What a position says of a task whose row is queued.
    ///
    /// A task does not know before it starts which provider it will meet. Whoever knows that all of them are tripped puts
    /// [`WaitReason::ProviderTripped`] in the place of `InLine` here.
    pub(crate) fn at(position: Position) -> Self {
        let reason = match (position.state, position.obstacle) {
            (_, Some(Obstacle::Rebuilding)) => WaitReason::QueueRebuilding,
            (_, Some(Obstacle::Paused)) | (Some(State::Parked), _) => WaitReason::Paused,
            (_, Some(Obstacle::NoWorkers)) => WaitReason::NoWorkers,
            (_, Some(Obstacle::TenantCap)) => WaitReason::TenantCap,
            (_, Some(Obstacle::StartRate)) => WaitReason::StartRate,
            (Some(State::InLine), None) => WaitReason::InLine,
            (Some(State::Held), None) => WaitReason::ThreadBusy,
            (Some(State::Quarantined), None) => WaitReason::Quarantined,
            (Some(State::Delayed), None) => WaitReason::Delayed,
            // Running: between its claim and the read of the row. Ended: it ended meanwhile.
            (Some(State::HandedOut | State::Running | State::Ended), None) => WaitReason::Starting,
            (Some(State::Registered) | None, None) => WaitReason::NotQueuedYet,
        };
        Self { reason, position: position.ahead, wait_ms: position.wait_ms }
    }
}
