//! One answer, read from the bytes of a body to chunks.
//!
//! Law 7: whether an answer is whole is decided here, by the turn itself and not by the status. Whole means `[DONE]`, or a
//! finish reason and a clean end of the body. Anything else (end without either, error object, frame that is not the
//! dialect) is trouble, told after the chunks that came before it.

use std::collections::VecDeque;

use penstock_protocol::TokenUsage;

use super::error::{Trouble, trouble_of_frame};
use super::frame::{Choice, Frame};
use crate::sse::{SseDecoder, SseEvent};
use crate::tool_call::ToolCalls;
use crate::{FinishReason, ModelChunk, Outcome};

/// Longest single event. A frame holds a few tokens, or a tool call's whole arguments.
const EVENT_BYTES_MAX: usize = 1 << 20;
/// Longest body of an answer. At 1 000 bytes of frame a token, more than 30 000 tokens.
const BODY_BYTES_MAX: usize = 32 << 20;

/// An answer being read.
#[derive(Debug)]
pub(crate) struct Answer {
    framing: Framing,
    turn: Turn,
    body_bytes: usize,
}

/// How far an answer is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Nothing of the answer itself yet.
    Waiting,
    /// The first token is there.
    Begun,
    /// Whole; its last chunk is [`ModelChunk::Finish`].
    Whole,
    /// Over without being whole.
    Failed,
}

#[derive(Debug)]
enum Framing {
    Events(SseDecoder),
    /// A server that ignores `stream: true` answers one JSON object.
    Json(Vec<u8>),
}

/// The turn as far as its frames tell it.
#[derive(Debug)]
struct Turn {
    progress: Progress,
    pieces_count: u64,
    pending: VecDeque<ModelChunk>,
    tools: ToolCalls,
    usage: Option<TokenUsage>,
    finish: Option<FinishReason>,
    trouble: Option<Trouble>,
    is_quota_throttle: bool,
}

impl Answer {
    /// An answer whose content type is `content_type`. For `is_quota_throttle` see
    /// [`trouble_of_response`](super::trouble_of_response).
    pub(crate) fn new(content_type: &str, is_quota_throttle: bool) -> Self {
        let mut turn = Turn {
            progress: Progress::Waiting,
            pieces_count: 0,
            pending: VecDeque::new(),
            tools: ToolCalls::default(),
            usage: None,
            finish: None,
            trouble: None,
            is_quota_throttle,
        };
        let framing = match content_type.split(';').next().unwrap_or_default().trim() {
            "application/json" => Framing::Json(Vec::new()),
            "text/html" => {
                turn.fail(Trouble::own(Outcome::Undecodable, "the provider answered a page of HTML"));
                Framing::Json(Vec::new())
            }
            // Some servers give streams odd types or none.
            _ => Framing::Events(SseDecoder::new(EVENT_BYTES_MAX)),
        };
        Self { framing, turn, body_bytes: 0 }
    }

    /// Takes the next bytes of the body.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.body_bytes = self.body_bytes.saturating_add(bytes.len());
        let turn = &mut self.turn;
        if self.body_bytes > BODY_BYTES_MAX {
            turn.fail(Trouble::own(Outcome::Undecodable, "the answer is larger than the gateway reads"));
            return;
        }
        match &mut self.framing {
            Framing::Json(body) => body.extend_from_slice(bytes),
            Framing::Events(decoder) => {
                if decoder.push(bytes, |event| turn.event(&event)).is_err() {
                    turn.fail(Trouble::own(Outcome::Undecodable, "an event is larger than the gateway reads"));
                }
            }
        }
    }

    /// The body ended cleanly.
    pub(crate) fn end(&mut self) {
        let turn = &mut self.turn;
        match &mut self.framing {
            Framing::Events(decoder) => decoder.finish(|event| turn.event(&event)),
            Framing::Json(body) if body.is_empty() => {}
            Framing::Json(body) => turn.frame(&std::mem::take(body)),
        }
        match turn.finish {
            Some(_) => turn.complete(),
            None => turn.fail(Trouble::own(Outcome::Server, "the provider's stream ended before the answer")),
        }
    }

    /// The connection broke.
    pub(crate) fn break_off(&mut self, message: String) {
        self.turn.fail(Trouble::own(Outcome::Server, message));
    }

    /// How far it is.
    pub(crate) fn progress(&self) -> &Progress {
        &self.turn.progress
    }

    /// How many pieces (text, reasoning, fragments, finish) have come. Comments and empty frames are none.
    pub(crate) fn pieces_count(&self) -> u64 {
        self.turn.pieces_count
    }

    /// Whether the model has said why it stopped.
    pub(crate) fn has_finish(&self) -> bool {
        self.turn.finish.is_some()
    }

    /// How many chunks wait to be taken.
    pub(crate) fn pending_count(&self) -> usize {
        self.turn.pending.len()
    }

    /// The next chunk that is ready.
    pub(crate) fn next_chunk(&mut self) -> Option<ModelChunk> {
        self.turn.pending.pop_front()
    }

    /// Why it failed, once.
    pub(crate) fn take_trouble(&mut self) -> Option<Trouble> {
        self.turn.trouble.take()
    }

    /// The last usage that the vendor told.
    pub(crate) fn usage(&self) -> Option<&TokenUsage> {
        self.turn.usage.as_ref()
    }
}

impl Turn {
    fn is_over(&self) -> bool {
        matches!(self.progress, Progress::Whole | Progress::Failed)
    }

    fn event(&mut self, event: &SseEvent<'_>) {
        if self.is_over() {
            return;
        }
        match event.data {
            _ if event.is_error => self.fail(trouble_of_frame(event.data, self.is_quota_throttle)),
            b"[DONE]" => self.done(),
            data if data.iter().all(u8::is_ascii_whitespace) => {}
            data => self.frame(data),
        }
    }

    fn frame(&mut self, data: &[u8]) {
        let frame = match serde_json::from_slice::<Frame<'_>>(data) {
            Ok(frame) => frame,
            Err(cause) => {
                let message = format!("the provider sent a frame that is not the dialect: {cause}");
                self.fail(Trouble::own(Outcome::Undecodable, message));
                return;
            }
        };
        if frame.is_error() {
            self.fail(trouble_of_frame(data, self.is_quota_throttle));
            return;
        }
        if let Some(usage) = frame.usage {
            self.usage = Some(usage.normal());
        }
        // One answer is read; others (`n` > 1) are skipped. A frame may have no choice anywhere in the stream.
        let choices = frame.choices.into_iter().flatten();
        for choice in choices.filter(|choice| choice.index.unwrap_or(0) == 0) {
            self.choice(choice);
        }
    }

    fn choice(&mut self, choice: Choice<'_>) {
        if let Some(usage) = choice.usage {
            self.usage = Some(usage.normal());
        }
        if let Some(delta) = choice.delta {
            if let Some(reasoning) = delta.reasoning_content.or(delta.reasoning).filter(|text| !text.is_empty()) {
                self.begin();
                match self.pending.back_mut() {
                    Some(ModelChunk::Reasoning(held)) => held.push_str(&reasoning),
                    _ => self.pending.push_back(ModelChunk::Reasoning(reasoning)),
                }
            }
            for text in [delta.content, delta.refusal].into_iter().flatten().filter(|text| !text.is_empty()) {
                self.begin();
                match self.pending.back_mut() {
                    Some(ModelChunk::Text(held)) => held.push_str(&text),
                    _ => self.pending.push_back(ModelChunk::Text(text)),
                }
            }
            for fragment in delta.tool_calls.into_iter().flatten() {
                self.begin();
                self.tools.push(fragment);
            }
        }
        if let Some(reason) = choice.finish_reason.filter(|reason| !reason.is_empty()) {
            self.pieces_count += 1;
            self.finish = Some(match reason.as_str() {
                "stop" => FinishReason::Stop,
                "length" => FinishReason::Length,
                "tool_calls" | "function_call" => FinishReason::ToolCalls,
                "content_filter" => FinishReason::ContentFilter,
                "error" => {
                    self.fail(Trouble::own(Outcome::Server, "the provider gave up in the middle of the answer"));
                    return;
                }
                _ => FinishReason::Other(reason),
            });
        }
    }

    fn begin(&mut self) {
        self.pieces_count += 1;
        if self.progress == Progress::Waiting {
            self.progress = Progress::Begun;
        }
    }

    /// `[DONE]`. Without a finish reason it still ends the answer, unless a tool call was plainly cut.
    fn done(&mut self) {
        if self.finish.is_none() && !self.tools.are_whole() {
            self.fail(Trouble::own(Outcome::Server, "the provider's stream ended inside a tool call"));
        } else {
            self.complete();
        }
    }

    fn complete(&mut self) {
        if self.is_over() {
            return;
        }
        let mut reason = self.finish.take().unwrap_or(FinishReason::Stop);
        // Cut by length or filter before a visible word: the reason is the answer. Else an answer has something in it.
        let may_be_empty = matches!(reason, FinishReason::Length | FinishReason::ContentFilter);
        if self.progress == Progress::Waiting && !may_be_empty {
            self.fail(Trouble::own(Outcome::Empty, "the provider gave an empty answer"));
            return;
        }
        if !self.tools.is_empty() && reason == FinishReason::Stop {
            reason = FinishReason::ToolCalls;
        }
        self.pending.extend(self.tools.take().map(ModelChunk::ToolCall));
        self.pending.extend(self.usage.clone().map(ModelChunk::Usage));
        self.pending.push_back(ModelChunk::Finish { reason });
        self.progress = Progress::Whole;
    }

    /// The first trouble counts; after the end of a whole answer nothing is trouble.
    fn fail(&mut self, trouble: Trouble) {
        if !self.is_over() {
            self.progress = Progress::Failed;
            self.trouble = Some(trouble);
        }
    }
}

#[cfg(test)]
mod tests;
