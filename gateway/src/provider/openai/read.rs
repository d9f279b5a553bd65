//! Reads chunks of a chat completion into the turn.

use super::frame::{Choice, Frame};
use crate::provider::answer::Read;
use crate::provider::trouble::Trouble;
use crate::provider::turn::Turn;
use crate::{FinishReason, Outcome};

/// Nothing is to be remembered: each chunk says all.
#[derive(Debug, Default)]
pub(in crate::provider) struct OpenAi;

impl OpenAi {
    /// Reads one chunk, or one whole completion.
    pub(in crate::provider) fn read(&mut self, data: &[u8], turn: &mut Turn) -> Result<Read, serde_json::Error> {
        let frame = serde_json::from_slice::<Frame<'_>>(data)?;
        if frame.is_error() {
            return Ok(Read::Error);
        }
        if let Some(usage) = frame.usage {
            turn.usage = Some(usage.normal());
        }
        // One answer is read; others (`n` > 1) are skipped. A frame may have no choice anywhere in the stream.
        let choices = frame.choices.into_iter().flatten();
        for choice in choices.filter(|choice| choice.index.unwrap_or(0) == 0) {
            read_choice(choice, turn);
        }
        Ok(Read::Piece)
    }
}

fn read_choice(choice: Choice<'_>, turn: &mut Turn) {
    if let Some(usage) = choice.usage {
        turn.usage = Some(usage.normal());
    }
    if let Some(delta) = choice.delta {
        turn.reasoning(delta.reasoning_content.or(delta.reasoning).unwrap_or_default());
        turn.text(delta.content.unwrap_or_default());
        turn.text(delta.refusal.unwrap_or_default());
        for call in delta.tool_calls.into_iter().flatten() {
            turn.tool(call.piece());
        }
    }
    match choice.finish_reason.as_deref() {
        None | Some("") => {}
        Some("error") => {
            turn.fail(Trouble::own(Outcome::Server, "the provider gave up in the middle of the answer"));
        }
        Some(reason) => turn.finish(match reason {
            "stop" => FinishReason::Stop,
            "length" => FinishReason::Length,
            "tool_calls" | "function_call" => FinishReason::ToolCalls,
            "content_filter" => FinishReason::ContentFilter,
            _ => FinishReason::Other(reason.to_owned()),
        }),
    }
}
