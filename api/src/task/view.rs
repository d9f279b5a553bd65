//! A task as clients see it, built from its row.

use penstock_protocol::{ErrorCode, Status, TaskId, ThreadId, TokenUsage};
use penstock_store::TaskRow;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::Links;
use super::waiting::{WaitReason, Waiting};

/// What a list shows of a task. Moments are milliseconds since the Unix epoch.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TaskSummary {
    /// Its id; the `runId` of its events.
    #[schema(value_type = uuid::Uuid)]
    task_id: TaskId,
    /// Its conversation.
    #[schema(value_type = uuid::Uuid)]
    thread_id: ThreadId,
    /// Agent that runs it.
    agent: String,
    /// End user.
    user: Option<String>,
    /// Status.
    status: Status,
    /// Head start in the tenant's own line.
    priority: u8,
    /// When it was accepted.
    accepted_ms: u64,
    /// When it first started.
    started_ms: Option<u64>,
    /// When it ended.
    ended_ms: Option<u64>,
    /// Time left to its deadline, 0 = passed; null without one, and after the end.
    deadline_left_ms: Option<u64>,
    /// How often it was tried.
    attempts: Attempts,
    /// Model that served last, `provider/model`.
    model: Option<String>,
    /// Model calls so far.
    model_calls: u32,
    /// Tokens by provider and model.
    usage: Vec<TokenUsage>,
    /// Why it failed.
    error: Option<TaskError>,
    /// When its attempts ran out, while it is a dead letter.
    dead_ms: Option<u64>,
    /// The task that it repeats.
    #[schema(value_type = Option<uuid::Uuid>)]
    replay_of: Option<TaskId>,
    /// The task that repeats it.
    #[schema(value_type = Option<uuid::Uuid>)]
    replayed_as: Option<TaskId>,
}

/// A task with its result and where it stands.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct TaskDetail {
    #[serde(flatten)]
    summary: TaskSummary,
    /// Why it is not progressing; null while it runs and after its end.
    waiting_reason: Option<WaitReason>,
    /// Estimate of the tasks that are served before it, while it is in line.
    position: Option<u64>,
    /// Estimate of its wait for a worker, in ms, while it is in line and something is known.
    estimated_wait_ms: Option<u64>,
    /// Final answer; of a cancelled task, the text that was seen.
    result: Option<Value>,
    /// The caller's own data.
    metadata: Value,
    /// Where to go on.
    links: Links,
}

/// How often a task was tried.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Attempts {
    /// Number of the latest attempt, 0 before the first.
    latest: u32,
    /// Attempts whose worker was lost.
    crashes: u32,
    /// Attempts that failed and were tried again.
    failures: u32,
}

/// Why a run ended in an error.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct TaskError {
    /// For programs.
    code: ErrorCode,
    /// For people.
    message: String,
}

impl From<&TaskRow> for TaskSummary {
    fn from(row: &TaskRow) -> Self {
        Self {
            task_id: row.key.task,
            thread_id: row.thread,
            agent: row.agent.clone(),
            user: row.user.clone(),
            status: row.status,
            priority: row.priority,
            accepted_ms: row.accepted_ms,
            started_ms: row.started_ms,
            ended_ms: row.ended_ms,
            deadline_left_ms: row.deadline_left_ms.filter(|_| !row.status.is_terminal()),
            attempts: Attempts { latest: row.attempt, crashes: row.crashes, failures: row.failures },
            model: row.model.clone(),
            model_calls: row.model_calls,
            usage: row.usage.clone(),
            error: row.error.clone().map(|(code, message)| TaskError { code, message }),
            dead_ms: row.dead_ms,
            replay_of: row.replay_of,
            replayed_as: row.replayed_as,
        }
    }
}

impl TaskDetail {
    /// Everything of a task. `waiting` is what the queue says of one that waits.
    pub(super) fn new(row: &TaskRow, waiting: Option<Waiting>, links: Links) -> Self {
        // A spec that this version cannot read is shown without the caller's data rather than not at all.
        let metadata = row.spec().map(|spec| spec.metadata).unwrap_or_default();
        Self {
            summary: row.into(),
            waiting_reason: waiting.map(|waiting| waiting.reason),
            position: waiting.and_then(|waiting| waiting.position),
            estimated_wait_ms: waiting.and_then(|waiting| waiting.wait_ms),
            result: row.result.clone(),
            metadata,
            links,
        }
    }
}
