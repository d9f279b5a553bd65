//! AG-UI 1.0 events that Penstock produces, and the ids under which a task's stream holds them.
//!
//! Absent means absent: an optional field is never sent as `null` (the official client rejects the run). Penstock emits
//! explicit START, CONTENT, END triads, never chunks.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{ErrorCode, IdError, TaskId, ThreadId, TokenUsage};

/// Version of the protocol, sent in RUN_STARTED.
pub const PROTOCOL_VERSION: &str = "1.0";

/// Id of an entry of a task's stream, `<attempt>-<n>`: the attempt number fences every write (law 5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EventId {
    /// Attempt that wrote it.
    pub attempt: u64,
    /// Number inside the attempt; 0 is the fence written when an attempt is taken away.
    pub n: u64,
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.attempt, self.n)
    }
}

impl FromStr for EventId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        text.split_once('-')
            .and_then(|(attempt, n)| Some(Self { attempt: attempt.parse().ok()?, n: n.parse().ok()? }))
            .ok_or_else(|| IdError { text: text.to_owned() })
    }
}

/// One AG-UI event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "SCREAMING_SNAKE_CASE", rename_all_fields = "camelCase")]
#[expect(missing_docs, reason = "names and meanings are the protocol's own")]
pub enum Event {
    RunStarted {
        thread_id: ThreadId,
        run_id: TaskId,
        #[serde(skip_serializing_if = "Option::is_none")]
        protocol_version: Option<String>,
    },
    RunFinished {
        thread_id: ThreadId,
        run_id: TaskId,
        #[serde(skip_serializing_if = "Option::is_none")]
        result: Option<Value>,
        #[serde(skip_serializing_if = "Option::is_none")]
        outcome: Option<Outcome>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        usage: Vec<TokenUsage>,
    },
    RunError {
        message: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        code: Option<ErrorCode>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        usage: Vec<TokenUsage>,
    },
    StepStarted {
        step_name: String,
    },
    StepFinished {
        step_name: String,
    },
    TextMessageStart {
        message_id: String,
        role: String,
    },
    TextMessageContent {
        message_id: String,
        delta: String,
    },
    TextMessageEnd {
        message_id: String,
    },
    ReasoningStart {
        message_id: String,
    },
    ReasoningMessageStart {
        message_id: String,
        role: String,
    },
    ReasoningMessageContent {
        message_id: String,
        delta: String,
    },
    ReasoningMessageEnd {
        message_id: String,
    },
    ReasoningEnd {
        message_id: String,
    },
    StateSnapshot {
        snapshot: Value,
    },
    MessagesSnapshot {
        messages: Vec<Value>,
    },
    Custom {
        name: String,
        value: Value,
    },
}

/// How a run that did not fail came to its end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Outcome {
    /// It did what was asked.
    Success,
    /// Its caller stopped it.
    Cancelled,
}

impl Event {
    /// RUN_STARTED of a task.
    #[must_use]
    pub fn run_started(thread_id: ThreadId, run_id: TaskId) -> Self {
        Self::RunStarted { thread_id, run_id, protocol_version: Some(PROTOCOL_VERSION.to_owned()) }
    }

    /// Whether nothing may follow on the stream of a task.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        matches!(self, Self::RunFinished { .. } | Self::RunError { .. })
    }

    /// The JSON object of the event, without a cursor.
    #[must_use]
    #[expect(clippy::expect_used, reason = "every variant is a struct of strings and JSON values; it cannot fail")]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("an event is plain JSON")
    }
}

/// Whether a stored event is the last of its run, judged by its text: readers do not parse every event.
///
/// Penstock writes `type` first, so the prefix decides.
#[must_use]
pub fn is_terminal_json(event: &str) -> bool {
    event.starts_with(r#"{"type":"RUN_FINISHED""#) || event.starts_with(r#"{"type":"RUN_ERROR""#)
}

/// Adds the cursor to a stored event: `"metadata":{"penstock":{"id":"1-3","seq":4}}`.
///
/// `event` is a JSON object as [`Event::to_json`] writes it, without `metadata`.
#[must_use]
pub fn with_cursor(event: &str, id: EventId, seq: u64) -> String {
    let body = event.strip_suffix('}').unwrap_or(event);
    format!(r#"{body},"metadata":{{"penstock":{{"id":"{id}","seq":{seq}}}}}}}"#)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cursor_is_added_without_parsing() {
        let event = Event::TextMessageEnd { message_id: "m".into() };
        let framed = with_cursor(&event.to_json(), EventId { attempt: 1, n: 3 }, 4);
        let value: Value = serde_json::from_str(&framed).unwrap();
        assert_eq!(value["metadata"]["penstock"]["id"], "1-3");
        assert_eq!(value["metadata"]["penstock"]["seq"], 4);
        assert_eq!(value["type"], "TEXT_MESSAGE_END");
    }

    #[test]
    fn absent_fields_are_absent_and_the_prefix_tells_the_end() {
        let end = Event::RunError { message: "x".into(), code: Some(ErrorCode::Deadline), usage: vec![] };
        assert_eq!(end.to_json(), r#"{"type":"RUN_ERROR","message":"x","code":"penstock.deadline"}"#);
        assert!(is_terminal_json(&end.to_json()));
        let start = Event::run_started(ThreadId::mint(), TaskId::mint());
        assert!(!is_terminal_json(&start.to_json()));
    }
}
