//! What a model stream gives out: Penstock's own terms, whatever the vendor's dialect was.

use penstock_protocol::TokenUsage;

use crate::ToolCall;

/// One step of an answer. The last one is always [`ModelChunk::Finish`]; a stream that failed ends in an error instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelChunk {
    /// Text of the answer. Pieces that arrived together come together.
    Text(String),
    /// Reasoning before the answer.
    Reasoning(String),
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
