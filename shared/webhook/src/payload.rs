//! What a target reads: type, moment, and the task as its row says.

use penstock_protocol::{ErrorCode, Status, TaskId, ThreadId, TokenUsage};
use penstock_store::TaskRow;
use serde::Serialize;
use serde_json::Value;

#[derive(Serialize)]
struct Payload<'a> {
    /// `task.succeeded`, `task.failed`, `task.cancelled`, `task.expired`.
    #[serde(rename = "type")]
    kind: String,
    /// When the task ended, RFC 3339.
    timestamp: String,
    data: Data<'a>,
}

#[derive(Serialize)]
struct Data<'a> {
    task_id: TaskId,
    thread_id: ThreadId,
    agent: &'a str,
    user: Option<&'a str>,
    status: Status,
    accepted_ms: u64,
    started_ms: Option<u64>,
    ended_ms: Option<u64>,
    result: Option<&'a Value>,
    error: Option<Error<'a>>,
    usage: &'a [TokenUsage],
    model: Option<&'a str>,
    metadata: Value,
}

#[derive(Serialize)]
struct Error<'a> {
    code: ErrorCode,
    message: &'a str,
}

/// The body for an ended task; the same at every try.
pub(crate) fn of(row: &TaskRow) -> Result<String, serde_json::Error> {
    let ended_ms = row.ended_ms.and_then(|ms| i64::try_from(ms).ok()).unwrap_or(0);
    let timestamp = jiff::Timestamp::from_millisecond(ended_ms).unwrap_or_default().to_string();
    let error = row.error.as_ref().map(|(code, message)| Error { code: *code, message });
    serde_json::to_string(&Payload {
        kind: format!("task.{}", row.status.as_str()),
        timestamp,
        data: Data {
            task_id: row.key.task,
            thread_id: row.thread,
            agent: &row.agent,
            user: row.user.as_deref(),
            status: row.status,
            accepted_ms: row.accepted_ms,
            started_ms: row.started_ms,
            ended_ms: row.ended_ms,
            result: row.result.as_ref(),
            error,
            usage: &row.usage,
            model: row.model.as_deref(),
            metadata: row.spec().map(|spec| spec.metadata).unwrap_or_default(),
        },
    })
}
