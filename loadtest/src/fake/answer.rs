//! What the fake provider says: the question back, then numbered words. Deterministic, so tests know it beforehand.

use std::fmt::Write;

use super::behaviour::Behaviour;
use super::choose::without_marker;

/// Most characters of the question that are repeated.
const ECHO_CHARS_MAX: usize = 200;

/// The whole text that a call with `messages_count` messages and this last user message gets in `chunks` text chunks.
#[must_use]
pub fn expected_text(messages_count: usize, last_user_text: &str, chunks: u32) -> String {
    let mut whole = String::new();
    for index in 0..chunks {
        push_chunk(&mut whole, index, messages_count, last_user_text, 0);
    }
    whole
}

/// What one answer says.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) messages_count: usize,
    pub(super) last_user_text: String,
    pub(super) prompt_tokens: u64,
}

impl Answer {
    /// Text of chunk `index`, from 0.
    pub(super) fn chunk(&self, behaviour: &Behaviour, index: u32) -> String {
        let mut text = String::new();
        push_chunk(&mut text, index, self.messages_count, &self.last_user_text, behaviour.chunk_bytes);
        text
    }

    /// The counts after `output_count` chunks: one token a chunk.
    pub(super) fn counts(&self, behaviour: &Behaviour, output_count: u32) -> Counts {
        let output = u64::from(output_count);
        let reasoning = (behaviour.reasoning > 0).then(|| output.min(u64::from(behaviour.reasoning)));
        Counts { input: self.prompt_tokens, output, cached: behaviour.cached_tokens, reasoning }
    }
}

/// What a call has used. Cached tokens are part of the input, reasoning is part of the output.
#[derive(Debug)]
pub(super) struct Counts {
    pub(super) input: u64,
    pub(super) output: u64,
    pub(super) cached: Option<u64>,
    pub(super) reasoning: Option<u64>,
}

fn push_chunk(text: &mut String, index: u32, messages_count: usize, last_user_text: &str, bytes_min: usize) {
    let before = text.len();
    if index == 0 {
        let question: String = without_marker(last_user_text).chars().take(ECHO_CHARS_MAX).collect();
        // Writing to a String cannot fail.
        _ = write!(text, "[{messages_count} messages] {question}");
    } else {
        _ = write!(text, " word-{index}");
    }
    let missing = bytes_min.saturating_sub(text.len() - before);
    text.extend(std::iter::repeat_n('.', missing));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_repeats_the_question_and_counts_on() {
        assert_eq!(expected_text(3, "hello [[fake: chunks=3]]", 3), "[3 messages] hello word-1 word-2");
    }
}
