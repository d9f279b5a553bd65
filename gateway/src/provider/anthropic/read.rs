//! Reads events of a message into the turn.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::event::{Block, Delta, Event};
use super::usage::WireUsage;
use crate::provider::answer::Read;
use crate::provider::turn::Turn;
use crate::tool_call::Piece;
use crate::{Fields, FinishReason};

/// What is remembered between events.
#[derive(Debug, Default)]
pub(in crate::provider) struct Anthropic {
    /// Input is told at the start, output at the end; later counts replace earlier ones, they are no additions.
    usage: WireUsage,
}

impl Anthropic {
    /// Reads one event, or one whole message.
    pub(in crate::provider) fn read(&mut self, data: &[u8], turn: &mut Turn) -> Result<Read, serde_json::Error> {
        let event = serde_json::from_slice::<Event<'_>>(data)?;
        if event.error.is_some() || event.kind == "error" {
            return Ok(Read::Error);
        }
        let usage = event.message.and_then(|message| message.usage).or(event.usage);
        if let Some(usage) = usage {
            self.usage.update(usage);
            turn.usage = Some(self.usage.normal());
        }
        match &*event.kind {
            "content_block_start" => {
                if let Some(block) = event.content_block {
                    read_block(event.index, block, turn);
                }
            }
            "content_block_delta" => {
                if let Some(delta) = event.delta {
                    read_delta(event.index, delta, turn);
                }
            }
            "content_block_stop" => turn.close_reasoning(),
            "message_delta" => {
                if let Some(reason) = event.delta.and_then(|delta| delta.stop_reason) {
                    turn.finish(finish_reason(reason));
                }
            }
            "message_stop" => turn.done(),
            "message" => {
                for (index, block) in event.content.into_iter().flatten().enumerate() {
                    read_block(u32::try_from(index).ok(), block, turn);
                    turn.close_reasoning();
                }
                if let Some(reason) = event.stop_reason {
                    turn.finish(finish_reason(reason));
                }
            }
            // `ping`, and events to come.
            _ => {}
        }
        Ok(Read::Piece)
    }
}

fn read_block(index: Option<u32>, block: Block<'_>, turn: &mut Turn) {
    match &*block.kind {
        "text" => turn.text(block.text.unwrap_or_default()),
        "thinking" => {
            turn.reasoning(block.thinking.unwrap_or_default());
            mark("signature", block.signature, turn);
        }
        "redacted_thinking" => mark("data", block.data, turn),
        "tool_use" => {
            // The vendor begins with an empty object and sends the arguments in pieces; some imitators send all at once.
            let whole = block.input.map(RawValue::get).filter(|input| !matches!(*input, "null" | "{}"));
            turn.tool(Piece {
                index,
                id: block.id,
                name: block.name,
                arguments: Cow::Borrowed(whole.unwrap_or_default()),
                marks: Fields::new(),
            });
        }
        // Tools that the vendor runs itself.
        _ => {}
    }
}

fn read_delta(index: Option<u32>, delta: Delta<'_>, turn: &mut Turn) {
    turn.text(delta.text.unwrap_or_default());
    turn.reasoning(delta.thinking.unwrap_or_default());
    mark("signature", delta.signature, turn);
    if let Some(arguments) = delta.partial_json {
        turn.tool(Piece { index, arguments, ..Piece::default() });
    }
}

fn mark(name: &str, value: Option<&RawValue>, turn: &mut Turn) {
    if let Some(value) = value.filter(|value| !matches!(value.get(), "null" | "\"\"")) {
        turn.reasoning_mark(name, value.to_owned());
    }
}

fn finish_reason(reason: String) -> FinishReason {
    match reason.as_str() {
        "end_turn" | "stop_sequence" => FinishReason::Stop,
        "max_tokens" | "model_context_window_exceeded" => FinishReason::Length,
        "tool_use" => FinishReason::ToolCalls,
        "refusal" => FinishReason::ContentFilter,
        _ => FinishReason::Other(reason),
    }
}
