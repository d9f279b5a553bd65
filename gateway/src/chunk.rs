//! What a model stream gives out: Penstock's own terms, whatever the vendor's dialect was.

use penstock_protocol::TokenUsage;

use crate::{Reasoning, ToolCall};

/// One step of an answer. The last one is always [`ModelChunk::Finish`]; a stream that failed ends in an error instead.
///
/// Reasoning and tool calls come twice: in pieces as they arrive, for who shows them, and whole before the end, for who acts
/// on them or sends them back. The pieces of a call put together are the whole call's arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelChunk {
    /// Text of the answer. Pieces that arrived together come together.
    Text(String),
    /// A piece of reasoning.
    Reasoning(String),
    /// A whole block of reasoning, with what proves it to its vendor.
    ReasoningBlock(Reasoning),
    /// A tool call begins; its name and id are known.
    ToolCallStart {
        /// Number of the call in this answer, from 0. Calls may grow side by side.
        index: u32,
        /// Id of the call; minted here if the vendor gave none.
        id: String,
        /// Name of the tool.
        name: String,
    },
    /// A piece of a call's arguments.
    ToolCallArguments {
        /// Number of the call.
        index: u32,
        /// JSON text.
        delta: String,
    },
    /// A whole tool call; all of them come before the end.
    ToolCall(ToolCall),
    /// What the vendor counted, at most once. Missing: the vendor told nothing, which is not zero.
    Usage(TokenUsage),
    /// The answer is whole.
    Finish {
        /// Why the model stopped.
        reason: FinishReason,
    },
}

impl ModelChunk {
    /// Bytes of what the model said in it.
    pub(crate) fn bytes_count(&self) -> usize {
        match self {
            Self::Text(text) | Self::Reasoning(text) => text.len(),
            Self::ToolCallStart { name, .. } => name.len(),
            Self::ToolCallArguments { delta, .. } => delta.len(),
            // What comes whole has come in pieces before.
            Self::ReasoningBlock(_) | Self::ToolCall(_) | Self::Usage(_) | Self::Finish { .. } => 0,
        }
    }
}

/// Why the model stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// It had said everything, or the vendor gave no reason.
    Stop,
    /// The output limit cut it. Arguments of tool calls may be half.
    Length,
    /// It asked for tools.
    ToolCalls,
    /// The vendor's filter cut it.
    ContentFilter,
    /// A reason of the vendor's own.
    Other(String),
}

impl FinishReason {
    /// The name in OpenAI's terms.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::ToolCalls => "tool_calls",
            Self::ContentFilter => "content_filter",
            Self::Other(name) => name,
        }
    }
}
