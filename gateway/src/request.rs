//! What a caller asks of a model, before an exit is chosen: messages and options in OpenAI's terms.

use penstock_protocol::message::{Content, Message};
use serde::Serialize;
use serde_json::Value;

use crate::Fields;

/// One model call.
#[derive(Clone, Debug, Default)]
pub struct ModelRequest {
    /// Name of the chain that serves it.
    pub chain: String,
    /// The conversation, oldest first.
    pub messages: Vec<ChatMessage>,
    /// Every other member of the request (`temperature`, `tools`, what no version of Penstock knows), sent unchanged.
    pub fields: Fields,
}

/// One message of the conversation, as it goes over the wire.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "role", rename_all = "lowercase")]
pub enum ChatMessage {
    /// Instructions.
    System {
        /// Text.
        content: String,
    },
    /// What the person said.
    User {
        /// Text or content parts.
        content: Content,
    },
    /// What the model said.
    Assistant {
        /// Text, when there was any.
        #[serde(skip_serializing_if = "Option::is_none")]
        content: Option<String>,
        /// Its reasoning. Several vendors answer 400 when it does not come back with the next turn.
        #[serde(skip_serializing_if = "Option::is_none")]
        reasoning_content: Option<String>,
        /// Tool calls in OpenAI's shape.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<Value>,
    },
    /// What a tool answered.
    Tool {
        /// Text or content parts.
        content: Content,
        /// The call that is answered.
        tool_call_id: String,
    },
}

impl ChatMessage {
    /// The wire form of a message of a conversation. `None`: reasoning shown to a person is never sent as text.
    ///
    /// A developer's instructions become system instructions, the one role that every vendor knows.
    #[must_use]
    pub fn from_message(message: &Message) -> Option<Self> {
        Some(match message {
            Message::Developer { content, .. } | Message::System { content, .. } => {
                Self::System { content: content.clone() }
            }
            Message::User { content, .. } => Self::User { content: content.clone() },
            Message::Assistant { content, tool_calls, .. } => {
                Self::Assistant { content: content.clone(), reasoning_content: None, tool_calls: tool_calls.clone() }
            }
            Message::Tool { content, tool_call_id, .. } => {
                Self::Tool { content: content.clone(), tool_call_id: tool_call_id.clone() }
            }
            Message::Reasoning { .. } => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn messages_take_their_wire_form() {
        let conversation = json!([
            {"role": "developer", "id": "1", "content": "be brief"},
            {"role": "user", "id": "2", "content": [{"type": "text", "text": "hi"}]},
            {"role": "reasoning", "id": "3", "content": "hm"},
            {"role": "assistant", "id": "4", "toolCalls": [{"id": "x", "type": "function"}]},
            {"role": "tool", "id": "5", "content": "42", "toolCallId": "x"},
        ]);
        let messages: Vec<Message> = serde_json::from_value(conversation).unwrap();
        let wire: Vec<_> = messages.iter().filter_map(ChatMessage::from_message).collect();
        assert_eq!(
            serde_json::to_value(&wire).unwrap(),
            json!([
                {"role": "system", "content": "be brief"},
                {"role": "user", "content": [{"type": "text", "text": "hi"}]},
                {"role": "assistant", "tool_calls": [{"id": "x", "type": "function"}]},
                {"role": "tool", "content": "42", "tool_call_id": "x"},
            ])
        );
    }

    #[test]
    fn reasoning_goes_back_beside_the_answer() {
        let message =
            ChatMessage::Assistant { content: None, reasoning_content: Some("hm".into()), tool_calls: vec![] };
        assert_eq!(serde_json::to_string(&message).unwrap(), r#"{"role":"assistant","reasoning_content":"hm"}"#);
    }
}
