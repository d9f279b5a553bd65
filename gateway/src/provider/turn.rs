//! One turn of a model, as far as its events tell it: the part of reading that all dialects share.
//!
//! Law 7: whether an answer is whole is decided here, by the turn itself and not by the status. Whole means the dialect's own
//! end mark, or a finish reason and a clean end of the body. Anything else (end without either, error object, event that is
//! not the dialect) is trouble, told after the chunks that came before it.

use std::collections::VecDeque;

use penstock_protocol::TokenUsage;
use serde_json::value::RawValue;

use super::answer::Progress;
use super::trouble::Trouble;
use crate::tool_call::{Piece, ToolCalls};
use crate::{FinishReason, ModelChunk, Outcome, Reasoning};

/// A turn being read.
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) progress: Progress,
    /// How many pieces (text, reasoning, fragments, finish) have come. Comments and empty events are none.
    pub(super) pieces_count: u64,
    pub(super) pending: VecDeque<ModelChunk>,
    pub(super) usage: Option<TokenUsage>,
    pub(super) trouble: Option<Trouble>,
    tools: ToolCalls,
    /// The block of reasoning that is open.
    reasoning: Reasoning,
    finish: Option<FinishReason>,
}

impl Turn {
    pub(super) fn new() -> Self {
        Self {
            progress: Progress::Waiting,
            pieces_count: 0,
            pending: VecDeque::new(),
            usage: None,
            trouble: None,
            tools: ToolCalls::default(),
            reasoning: Reasoning::default(),
            finish: None,
        }
    }

    pub(super) fn is_over(&self) -> bool {
        matches!(self.progress, Progress::Whole | Progress::Failed)
    }

    pub(super) fn has_finish(&self) -> bool {
        self.finish.is_some()
    }

    /// A piece of text; an empty one is none.
    pub(super) fn text(&mut self, text: String) {
        if text.is_empty() {
            return;
        }
        self.begin();
        match self.pending.back_mut() {
            Some(ModelChunk::Text(held)) => held.push_str(&text),
            _ => self.pending.push_back(ModelChunk::Text(text)),
        }
    }

    /// A piece of reasoning; an empty one is none.
    pub(super) fn reasoning(&mut self, text: String) {
        if text.is_empty() {
            return;
        }
        self.begin();
        self.reasoning.text.push_str(&text);
        match self.pending.back_mut() {
            Some(ModelChunk::Reasoning(held)) => held.push_str(&text),
            _ => self.pending.push_back(ModelChunk::Reasoning(text)),
        }
    }

    /// What proves the open block of reasoning to its vendor. Counts as a piece: the model is at work.
    pub(super) fn reasoning_mark(&mut self, name: &str, value: Box<RawValue>) {
        self.begin();
        self.reasoning.marks.set_raw(name, value);
    }

    /// The open block of reasoning is whole.
    pub(super) fn close_reasoning(&mut self) {
        let block = std::mem::take(&mut self.reasoning);
        if block != Reasoning::default() {
            self.pending.push_back(ModelChunk::ReasoningBlock(block));
        }
    }

    /// A piece of a tool call.
    pub(super) fn tool(&mut self, piece: Piece<'_>) {
        self.begin();
        self.tools.push(piece, &mut self.pending);
    }

    /// The model has said why it stopped.
    pub(super) fn finish(&mut self, reason: FinishReason) {
        self.pieces_count += 1;
        self.finish = Some(reason);
    }

    /// The dialect's end mark. Without a finish reason it still ends the answer, unless a tool call was plainly cut.
    pub(super) fn done(&mut self) {
        if self.finish.is_none() && !self.tools.are_whole() {
            self.fail(Trouble::own(Outcome::Server, "the provider's stream ended inside a tool call"));
        } else {
            self.complete();
        }
    }

    /// The body ended cleanly.
    pub(super) fn end(&mut self) {
        match self.finish {
            Some(_) => self.complete(),
            None => self.fail(Trouble::own(Outcome::Server, "the provider's stream ended before the answer")),
        }
    }

    /// The first trouble counts; after the end of a whole answer nothing is trouble.
    pub(super) fn fail(&mut self, trouble: Trouble) {
        if !self.is_over() {
            self.progress = Progress::Failed;
            self.trouble = Some(trouble);
        }
    }

    /// An event that cannot be read.
    pub(super) fn undecodable(&mut self, cause: &serde_json::Error) {
        let message = format!("the provider sent an event that is not the dialect: {cause}");
        self.fail(Trouble::own(Outcome::Undecodable, message));
    }

    fn begin(&mut self) {
        self.pieces_count += 1;
        if self.progress == Progress::Waiting {
            self.progress = Progress::Begun;
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
        self.close_reasoning();
        self.tools.finish(&mut self.pending);
        self.pending.extend(self.usage.clone().map(ModelChunk::Usage));
        self.pending.push_back(ModelChunk::Finish { reason });
        self.progress = Progress::Whole;
    }
}
