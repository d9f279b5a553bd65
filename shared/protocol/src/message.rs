//! AG-UI messages and the one message upstream, `RunAgentInput`.
//!
//! Unknown members are dropped, a malformed known member is an error before anything runs. Message contents that
//! Penstock does not interpret (images, tool calls) pass through as JSON.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{TaskId, ThreadId};

/// One message of a conversation, tagged by `role`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(tag = "role", rename_all = "lowercase", rename_all_fields = "camelCase")]
pub enum Message {
    /// Instructions of the application's developer.
    Developer {
        /// Id minted by the writer.
        id: String,
        /// Text.
        content: String,
    },
    /// Instructions of the system.
    System {
        /// Id minted by the writer.
        id: String,
        /// Text.
        content: String,
    },
    /// What the person said.
    User {
        /// Id minted by the writer.
        id: String,
        /// Text or content parts.
        content: Content,
    },
    /// What the model said.
    Assistant {
        /// Id minted by the writer.
        id: String,
        /// Text, when there was any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        content: Option<String>,
        /// Tool calls that the model asked for, in OpenAI's shape.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<Value>,
    },
    /// What a tool answered.
    Tool {
        /// Id minted by the writer.
        id: String,
        /// Text or content parts.
        content: Content,
        /// The call that is answered.
        tool_call_id: String,
        /// Set when the tool failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// Reasoning shown to the person; never sent back to a model as text.
    Reasoning {
        /// Id minted by the writer.
        id: String,
        /// Text.
        content: String,
    },
}

/// Text, or a list of AG-UI content parts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(untagged)]
pub enum Content {
    /// Plain text.
    Text(String),
    /// Content parts (`text`, `image`, …), passed through.
    Parts(Vec<Value>),
}

impl Content {
    /// The text of the content; of parts, the text parts joined.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Parts(parts) => {
                parts.iter().filter_map(|part| part.get("text")?.as_str()).collect::<Vec<_>>().join("\n")
            }
        }
    }
}

/// The body of `POST /api/agui/{agent}`, as the stock `HttpAgent` sends it. `messages` is the complete history.
#[derive(Clone, Debug, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunAgentInput {
    /// Thread, minted by the client.
    pub thread_id: ThreadId,
    /// Run, minted by the client; the task's id.
    pub run_id: TaskId,
    /// Complete history, the new message last.
    pub messages: Vec<Message>,
    /// Tools that the front end offers.
    #[serde(default)]
    pub tools: Vec<Value>,
    /// Descriptions and values for the agent.
    #[serde(default)]
    pub context: Vec<Value>,
    /// Shared state of the application.
    #[serde(default)]
    pub state: Value,
    /// Passed to the agent unchanged; Penstock's own knobs are in `penstock`.
    #[serde(default)]
    pub forwarded_props: Value,
}
