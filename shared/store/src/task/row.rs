//! One row of `task`, as every reader gets it.

use penstock_protocol::{Ending, ErrorCode, Place, Status, TaskId, TaskKey, TaskSpec, TenantNo, ThreadId, TokenUsage};
use serde_json::Value;
use sqlx::Row;
use sqlx::mysql::MySqlRow;

use crate::StoreError;

/// A task as MySQL has it: the truth.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskRow {
    /// Tenant and id.
    pub key: TaskKey,
    /// Conversation.
    pub thread: ThreadId,
    /// Agent named by the request.
    pub agent: String,
    /// End user named by the request.
    pub user: Option<String>,
    /// Status.
    pub status: Status,
    /// Place in its tenant's line.
    pub place: Place,
    /// 0 to 9.
    pub priority: u8,
    /// Estimated cost, in tokens.
    pub cost_tokens: u32,
    /// SHA-256 of the request body.
    pub body_hash: [u8; 32],
    /// When the door accepted it.
    pub accepted_ms: u64,
    /// Time left until its deadline by MySQL's clock when the row was read; 0 = passed. `None` = no deadline.
    pub deadline_left_ms: Option<u64>,
    /// When the first attempt claimed it.
    pub started_ms: Option<u64>,
    /// When it ended.
    pub ended_ms: Option<u64>,
    /// Latest attempt, 0 before the first claim.
    pub attempt: u32,
    /// Attempts whose worker was lost.
    pub crashes: u32,
    /// Attempts that failed and were retried.
    pub failures: u32,
    /// Worker of the latest attempt.
    pub worker: Option<String>,
    /// What was asked; parsed by [`TaskRow::spec`].
    pub(crate) spec: String,
    /// Final answer, or the text that was seen before a cancel.
    pub result: Option<Value>,
    /// Usage per provider and model.
    pub usage: Vec<TokenUsage>,
    /// Model that served last, `provider/model`.
    pub model: Option<String>,
    /// Model calls of all attempts that reported.
    pub model_calls: u32,
    /// Code and message of a failure.
    pub error: Option<(ErrorCode, String)>,
    /// When it became a dead letter, while it is one.
    pub dead_ms: Option<u64>,
    /// The task that it repeats.
    pub replay_of: Option<TaskId>,
    /// The task that repeats it.
    pub replayed_as: Option<TaskId>,
}

/// The columns of [`TaskRow`], in the order that [`TaskRow::read`] takes them.
pub(crate) const COLUMNS: &str = "t.tenant, t.id, t.thread, t.agent, t.end_user, t.status, t.place, t.priority, \
     t.cost_tokens, t.body_hash, t.accepted_ms, \
     CAST(GREATEST(0, CAST(t.deadline_ms AS SIGNED) - CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED)) AS UNSIGNED), \
     t.started_ms, t.ended_ms, t.attempt, t.crashes, t.failures, t.worker, t.spec, t.result, t.token_usage, t.model, \
     t.model_calls, t.error_code, t.error_message, t.dead_ms, t.replay_of, t.replayed_as";

impl TaskRow {
    /// What was asked. Errors: `Corrupt` when it was written by a version that this one cannot read.
    pub fn spec(&self) -> Result<TaskSpec, StoreError> {
        serde_json::from_str(&self.spec)
            .map_err(|error| StoreError::Corrupt { row: self.key.to_string(), reason: error.to_string() })
    }

    /// The end that the row states; `None` while it has not ended.
    #[must_use]
    pub fn ending(&self) -> Option<Ending> {
        self.status.is_terminal().then(|| Ending {
            status: self.status,
            result: self.result.clone(),
            error: self.error.clone(),
            usage: self.usage.clone(),
        })
    }

    /// The terminal event that the row states, as JSON; `None` while it has not ended.
    #[must_use]
    pub fn terminal_event(&self) -> Option<String> {
        self.ending().map(|ending| ending.event(self.thread, self.key.task).to_json())
    }

    pub(crate) fn read(row: &MySqlRow) -> Result<Self, sqlx::Error> {
        let status: String = row.try_get(5)?;
        let error_code: Option<String> = row.try_get(23)?;
        let error_message: Option<String> = row.try_get(24)?;
        Ok(Self {
            key: TaskKey::new(TenantNo(row.try_get(0)?), TaskId(uuid(row, 1)?)),
            thread: ThreadId(uuid(row, 2)?),
            agent: row.try_get(3)?,
            user: row.try_get(4)?,
            status: Status::from_name(&status).ok_or_else(|| decode(format!("status `{status}`")))?,
            place: Place::from_stored(row.try_get(6)?),
            priority: row.try_get(7)?,
            cost_tokens: row.try_get(8)?,
            body_hash: row
                .try_get::<Vec<u8>, _>(9)?
                .try_into()
                .map_err(|_| decode("body_hash is not 32 bytes".to_owned()))?,
            accepted_ms: row.try_get(10)?,
            deadline_left_ms: row.try_get(11)?,
            started_ms: row.try_get(12)?,
            ended_ms: row.try_get(13)?,
            attempt: row.try_get(14)?,
            crashes: row.try_get(15)?,
            failures: row.try_get(16)?,
            worker: row.try_get(17)?,
            spec: row.try_get(18)?,
            result: json(row.try_get(19)?)?,
            usage: json(row.try_get(20)?)?.unwrap_or_default(),
            model: row.try_get(21)?,
            model_calls: row.try_get(22)?,
            error: error_code.map(|code| (ErrorCode::from_stored(&code), error_message.unwrap_or_default())),
            dead_ms: row.try_get(25)?,
            replay_of: other_task(row, 26)?,
            replayed_as: other_task(row, 27)?,
        })
    }
}

fn uuid(row: &MySqlRow, at: usize) -> Result<uuid::Uuid, sqlx::Error> {
    let bytes: Vec<u8> = row.try_get(at)?;
    uuid::Uuid::from_slice(&bytes).map_err(|error| decode(error.to_string()))
}

fn other_task(row: &MySqlRow, at: usize) -> Result<Option<TaskId>, sqlx::Error> {
    let bytes: Option<Vec<u8>> = row.try_get(at)?;
    bytes.map(|bytes| uuid::Uuid::from_slice(&bytes).map(TaskId).map_err(|error| decode(error.to_string()))).transpose()
}

fn json<T: serde::de::DeserializeOwned>(text: Option<String>) -> Result<Option<T>, sqlx::Error> {
    text.map(|text| serde_json::from_str(&text).map_err(|error| decode(error.to_string()))).transpose()
}

fn decode(reason: String) -> sqlx::Error {
    sqlx::Error::Decode(reason.into())
}
