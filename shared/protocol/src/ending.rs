//! The end of a task, as its row in MySQL says it, and the one terminal event built from it.
//!
//! Law 4: the row decides, Redis only publishes. Every process that publishes an end (worker, door, reaper) builds
//! it here, so the event is the same whoever publishes it.

use serde_json::{Value, json};

use crate::event::Outcome;
use crate::{ErrorCode, Event, Status, TaskId, ThreadId, TokenUsage};

/// A terminal status with what is stored beside it.
#[derive(Clone, Debug, PartialEq)]
pub struct Ending {
    /// A terminal status.
    pub status: Status,
    /// Final answer: of a cancelled task, the text that its client saw.
    pub result: Option<Value>,
    /// Code and message of a failed or expired task.
    pub error: Option<(ErrorCode, String)>,
    /// Usage, one entry per provider and model.
    pub usage: Vec<TokenUsage>,
}

/// A final answer as it is stored in its task's row and sent in RUN_FINISHED.
#[must_use]
pub fn answer(message_id: &str, text: &str) -> Value {
    json!({ "message_id": message_id, "text": text })
}

impl Ending {
    /// A failure without a result.
    #[must_use]
    pub fn failed(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { status: Status::Failed, result: None, error: Some((code, message.into())), usage: Vec::new() }
    }

    /// The event that closes the run: RUN_FINISHED for success and cancel, RUN_ERROR for everything else.
    #[must_use]
    pub fn event(&self, thread_id: ThreadId, run_id: TaskId) -> Event {
        match self.status {
            Status::Succeeded => Event::RunFinished {
                thread_id,
                run_id,
                result: self.result.clone(),
                outcome: Some(Outcome::Success),
                usage: self.usage.clone(),
            },
            // AG-UI: a cancelled run carries no result.
            Status::Cancelled => Event::RunFinished {
                thread_id,
                run_id,
                result: None,
                outcome: Some(Outcome::Cancelled),
                usage: self.usage.clone(),
            },
            _ => {
                let (code, message) = self.error.clone().unwrap_or_else(|| match self.status {
                    Status::Expired => (ErrorCode::Deadline, "the deadline passed".to_owned()),
                    _ => (ErrorCode::Internal, "the task ended without a reason".to_owned()),
                });
                Event::RunError { message, code: Some(code), usage: self.usage.clone() }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cancelled_run_never_reads_as_success() {
        let ending = Ending { status: Status::Cancelled, result: Some("half".into()), error: None, usage: vec![] };
        let json = ending.event(ThreadId::mint(), TaskId::mint()).to_json();
        assert!(json.contains(r#""outcome":{"type":"cancelled"}"#), "{json}");
        assert!(!json.contains("result"), "{json}");
    }
}
