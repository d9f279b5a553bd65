//! The body of `POST /api/task`.
//!
//! Two bodies are the same request when they mean the same: the hash is taken over the parsed body written out again, so
//! white space and the order of fields do not matter.

use std::fmt;

use penstock_protocol::message::Message;
use penstock_protocol::{Input, RetryWish, TaskId, TaskSpec, ThreadId};
use serde::de::value::SeqAccessDeserializer;
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::field::allowed_ms;
use super::{IdempotencyKey, OnBusyThread, OnDisconnect, Priority, Submission, UserName};
use crate::error::Problem;

/// A task to be run. Unknown fields are refused.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SubmitRequest {
    /// Agent that runs it, by its name in the settings.
    pub agent: String,
    /// One user message, or the complete conversation as AG-UI messages.
    #[serde(deserialize_with = "input")]
    pub input: Input,
    /// Id minted by the caller (a UUID), so that a socket can be opened before the task is submitted. The same id with
    /// the same body is the same task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<uuid::Uuid>)]
    pub task_id: Option<TaskId>,
    /// Conversation to go on with (a UUID); a new one when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<uuid::Uuid>)]
    pub thread_id: Option<ThreadId>,
    /// End user on whose behalf it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<UserName>,
    /// Head start in the tenant's own line.
    #[serde(default, skip_serializing_if = "Priority::is_none")]
    pub priority: Priority,
    /// What happens while another task of the thread has not ended.
    #[serde(default, skip_serializing_if = "OnBusyThread::is_usual")]
    pub on_busy_thread: OnBusyThread,
    /// Longest predicted wait that the caller accepts, in ms; a longer one is answered 429 `wait_too_long`.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "allowed_ms")]
    #[schema(minimum = 1)]
    pub max_wait_ms: Option<u64>,
    /// What becomes of it when nobody watches it any more.
    #[serde(default, skip_serializing_if = "OnDisconnect::is_usual")]
    pub on_disconnect: OnDisconnect,
    /// Fewer retries than the settings allow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryWish>,
    /// Time from acceptance to the deadline, in ms. A task that has not ended by then expires.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "allowed_ms")]
    #[schema(minimum = 1)]
    pub deadline_ms: Option<u64>,
    /// The caller's own data, returned unchanged.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub metadata: Value,
    /// Shared application state (AG-UI).
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub state: Value,
    /// Front-end tools (AG-UI).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<Value>,
}

impl SubmitRequest {
    /// What is submitted.
    pub(super) fn into_submission(self, idempotency_key: Option<IdempotencyKey>) -> Result<Submission, Problem> {
        Ok(Submission {
            body_hash: Submission::hash_of(&self)?,
            agent: self.agent,
            task_id: self.task_id,
            idempotency_key,
            thread_id: self.thread_id,
            user: self.user,
            priority: self.priority,
            on_busy_thread: self.on_busy_thread,
            wait_ms_max: self.max_wait_ms,
            deadline_in_ms: self.deadline_ms,
            on_disconnect: self.on_disconnect,
            replay_of: None,
            spec: TaskSpec {
                input: self.input,
                is_new_thread: self.thread_id.is_none(),
                metadata: self.metadata,
                state: self.state,
                tools: self.tools,
                context: Vec::new(),
                retry: self.retry,
                traceparent: None,
            },
        })
    }
}

/// Reads the input with the path of what is wrong inside it, which an untagged enum would hide.
fn input<'de, D: Deserializer<'de>>(from: D) -> Result<Input, D::Error> {
    struct InputVisitor;

    impl<'de> Visitor<'de> for InputVisitor {
        type Value = Input;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a text or a list of messages")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<Input, E> {
            self.visit_string(text.to_owned())
        }

        fn visit_string<E: Error>(self, text: String) -> Result<Input, E> {
            if text.is_empty() { Err(E::custom("the text is empty")) } else { Ok(Input::Text(text)) }
        }

        fn visit_seq<A: SeqAccess<'de>>(self, messages: A) -> Result<Input, A::Error> {
            let messages = Vec::<Message>::deserialize(SeqAccessDeserializer::new(messages))?;
            if messages.is_empty() { Err(A::Error::custom("the list is empty")) } else { Ok(Input::Messages(messages)) }
        }
    }

    from.deserialize_any(InputVisitor)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(text: &str) -> [u8; 32] {
        Submission::hash_of(&serde_json::from_str::<SubmitRequest>(text).unwrap()).unwrap()
    }

    #[test]
    fn the_hash_is_of_the_meaning() {
        let one = hash(r#"{"agent":"a","input":"x","metadata":{"b":1,"a":{"d":1,"c":2}}}"#);
        let same =
            hash(r#" {"metadata":{"a":{"c":2,"d":1},"b":1}, "input":"\u0078","agent":"a","priority":0,"user":null}"#);
        assert_eq!(one, same);
        for other in [
            r#"{"agent":"a","input":"y","metadata":{"b":1,"a":{"d":1,"c":2}}}"#,
            r#"{"agent":"a","input":"x","metadata":{"b":2,"a":{"d":1,"c":2}}}"#,
            r#"{"agent":"a","input":"x"}"#,
        ] {
            assert_ne!(one, hash(other), "{other}");
        }
    }
}
