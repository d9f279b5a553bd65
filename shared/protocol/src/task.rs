//! What a worker needs to run a task: the part of the request that is stored as it was accepted.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::message::Message;

/// The stored request (`task.spec` in MySQL, JSON). What Penstock itself decides by (thread, deadline, priority) stands in
/// columns beside it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskSpec {
    /// What the person asked.
    pub input: Input,
    /// Whether the door minted the thread for this task: then there is no history, and none is looked for.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_new_thread: bool,
    /// Client's own data, returned unchanged.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub metadata: Value,
    /// Shared application state (AG-UI).
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub state: Value,
    /// Front-end tools (AG-UI).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<Value>,
    /// Context entries (AG-UI).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub context: Vec<Value>,
    /// What its caller wants of retries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryWish>,
    /// W3C `traceparent` of the submitting request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
}

/// What a caller wants of retries, inside what the settings allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RetryWish {
    /// Attempts that may fail, 1 = none is repeated; at most `queue.failures_max`, which counts where this is larger.
    #[schema(value_type = u32, minimum = 1)]
    pub failures_max: std::num::NonZeroU32,
}

/// A text continues its thread; a list of messages *is* the conversation and nothing is put before it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(untagged)]
pub enum Input {
    /// One user message.
    Text(String),
    /// The complete conversation, the newest message last.
    Messages(Vec<Message>),
}
