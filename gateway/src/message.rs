//! One message of a conversation, whatever the vendor's dialect will be.
//!
//! Unknown members pass through, per message and per part. What a model gave for its own eyes (reasoning, signatures) goes
//! back to the exit that made it and to no other: another vendor's signature is an error there.

use penstock_protocol::message::Message;
use serde_json::Value;

use crate::settings::Exit;
use crate::{Content, Fields, ModelChunk, Part, ToolCall};

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChatMessage {
    /// Instructions.
    System {
        /// Text or parts.
        content: Content,
        /// Members that pass through.
        fields: Fields,
    },
    /// What the person said.
    User {
        /// Text or parts.
        content: Content,
        /// Members that pass through (`name`).
        fields: Fields,
    },
    /// What the model said.
    Assistant(Said),
    /// What a tool answered.
    Tool {
        /// Text or parts.
        content: Content,
        /// The call that is answered.
        tool_call_id: String,
        /// Members that pass through.
        fields: Fields,
    },
}

/// What a model said in one turn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// Text, when there was any.
    pub content: Option<Content>,
    /// Its reasoning. Several vendors answer 400 when it does not come back with the next turn.
    pub reasoning: Vec<Reasoning>,
    /// Tools that it called.
    pub tool_calls: Vec<ToolCall>,
    /// Who said it. `None`: unknown, and reasoning and signatures are taken to belong where the call goes.
    pub exit: Option<Exit>,
    /// Members that pass through (`name`, `prefix`).
    pub fields: Fields,
}

/// One block of a model's reasoning.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reasoning {
    /// What was shown of it.
    pub text: String,
    /// What proves it to its vendor, in the vendor's own members: `signature`, or `data` of a block that is not shown.
    pub marks: Fields,
}

impl ChatMessage {
    /// Instructions.
    #[must_use]
    pub fn system(content: impl Into<Content>) -> Self {
        Self::System { content: content.into(), fields: Fields::new() }
    }

    /// What the person said.
    #[must_use]
    pub fn user(content: impl Into<Content>) -> Self {
        Self::User { content: content.into(), fields: Fields::new() }
    }

    /// Plain text that the model said.
    #[must_use]
    pub fn assistant(content: impl Into<Content>) -> Self {
        Self::Assistant(Said { content: Some(content.into()), ..Said::default() })
    }

    /// What a tool answered to a call.
    #[must_use]
    pub fn tool(tool_call_id: impl Into<String>, content: impl Into<Content>) -> Self {
        Self::Tool { content: content.into(), tool_call_id: tool_call_id.into(), fields: Fields::new() }
    }

    /// A message of an AG-UI conversation. `None`: reasoning shown to a person is never sent as text.
    ///
    /// A developer's instructions become system instructions, the one role that every vendor knows.
    #[must_use]
    pub fn from_message(message: &Message) -> Option<Self> {
        Some(match message {
            Message::Developer { content, .. } | Message::System { content, .. } => Self::system(content.clone()),
            Message::User { content, .. } => Self::user(content),
            Message::Assistant { content, tool_calls, .. } => Self::Assistant(Said {
                content: content.clone().map(Content::Text),
                tool_calls: tool_calls.iter().filter_map(called).collect(),
                ..Said::default()
            }),
            Message::Tool { content, tool_call_id, .. } => Self::tool(tool_call_id.clone(), content),
            Message::Reasoning { .. } => return None,
        })
    }
}

impl Said {
    /// What `exit` is about to say.
    #[must_use]
    pub fn by(exit: Exit) -> Self {
        Self { exit: Some(exit), ..Self::default() }
    }

    /// Takes over what a chunk of the answer adds to the message.
    pub fn add(&mut self, chunk: ModelChunk) {
        match chunk {
            ModelChunk::Text(piece) => match &mut self.content {
                Some(Content::Text(text)) => text.push_str(&piece),
                Some(Content::Parts(parts)) => parts.push(Part::text(piece)),
                None => self.content = Some(Content::Text(piece)),
            },
            ModelChunk::ReasoningBlock(block) => self.reasoning.push(block),
            ModelChunk::ToolCall(call) => self.tool_calls.push(call),
            // Pieces of what comes whole, and what is no part of the message.
            ModelChunk::Reasoning(_)
            | ModelChunk::ToolCallStart { .. }
            | ModelChunk::ToolCallArguments { .. }
            | ModelChunk::Usage(_)
            | ModelChunk::Finish { .. } => {}
        }
    }

    /// Whether its reasoning and marks belong to `exit`.
    pub(crate) fn is_of(&self, exit: &Exit) -> bool {
        self.exit.as_ref().is_none_or(|made_by| made_by == exit)
    }
}

/// A tool call in OpenAI's shape, which is AG-UI's too.
fn called(call: &Value) -> Option<ToolCall> {
    let function = call.get("function")?;
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    Some(ToolCall {
        id: text(call.get("id")?),
        name: text(function.get("name")?),
        arguments: function.get("arguments").map_or_else(|| "{}".to_owned(), text),
        marks: Fields::new(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_conversation_of_ag_ui_becomes_the_models() {
        let conversation = json!([
            {"role": "developer", "id": "1", "content": "be brief"},
            {"role": "user", "id": "2", "content": [{"type": "text", "text": "hi"}]},
            {"role": "reasoning", "id": "3", "content": "hm"},
            {"role": "assistant", "id": "4", "toolCalls": [
                {"id": "x", "type": "function", "function": {"name": "now", "arguments": "{}"}}]},
            {"role": "tool", "id": "5", "content": "42", "toolCallId": "x"},
        ]);
        let messages: Vec<Message> = serde_json::from_value(conversation).unwrap();
        let read: Vec<_> = messages.iter().filter_map(ChatMessage::from_message).collect();
        let call = ToolCall { id: "x".into(), name: "now".into(), arguments: "{}".into(), marks: Fields::new() };
        assert_eq!(
            read,
            [
                ChatMessage::system("be brief"),
                ChatMessage::user(Content::Parts(vec![crate::Part::text("hi")])),
                ChatMessage::Assistant(Said { tool_calls: vec![call], ..Said::default() }),
                ChatMessage::tool("x", "42"),
            ]
        );
    }
}
