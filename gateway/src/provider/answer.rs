//! One answer, read from the bytes of a body to chunks: framing and bounds, whatever the dialect.

use penstock_protocol::TokenUsage;

use super::Dialect;
use super::anthropic::Anthropic;
use super::gemini::Gemini;
use super::openai::OpenAi;
use super::trouble::{Trouble, trouble_of_frame};
use super::turn::Turn;
use crate::settings::AnswerBounds;
use crate::sse::{SseDecoder, SseEvent};
use crate::{ModelChunk, Outcome};

/// An answer being read.
#[derive(Debug)]
pub(crate) struct Answer {
    framing: Framing,
    reader: Reader,
    body_bytes: usize,
    body_bytes_max: usize,
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

#[derive(Debug)]
struct Reader {
    turn: Turn,
    dialect: Events,
    is_quota_throttle: bool,
}

/// What a dialect has to remember between events.
#[derive(Debug)]
enum Events {
    OpenAi(OpenAi),
    Anthropic(Anthropic),
    Gemini(Gemini),
}

impl Answer {
    /// An answer whose content type is `content_type`. For `is_quota_throttle` see
    /// [`Dialect::answer`].
    pub(crate) fn new(dialect: Dialect, content_type: &str, is_quota_throttle: bool, bounds: AnswerBounds) -> Self {
        let mut turn = Turn::new();
        let framing = match content_type.split(';').next().unwrap_or_default().trim() {
            "application/json" => Framing::Json(Vec::new()),
            "text/html" => {
                turn.fail(Trouble::own(Outcome::Undecodable, "the provider answered a page of HTML"));
                Framing::Json(Vec::new())
            }
            // Some servers give streams odd types or none.
            _ => Framing::Events(SseDecoder::new(bounds.event_bytes_max)),
        };
        let dialect = match dialect {
            Dialect::Openai => Events::OpenAi(OpenAi),
            Dialect::Anthropic => Events::Anthropic(Anthropic::default()),
            Dialect::Gemini => Events::Gemini(Gemini::default()),
        };
        let reader = Reader { turn, dialect, is_quota_throttle };
        Self { framing, reader, body_bytes: 0, body_bytes_max: bounds.body_bytes_max }
    }

    /// Takes the next bytes of the body.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.body_bytes = self.body_bytes.saturating_add(bytes.len());
        let reader = &mut self.reader;
        if self.body_bytes > self.body_bytes_max {
            reader.turn.fail(Trouble::own(Outcome::Undecodable, "the answer is larger than the gateway reads"));
            return;
        }
        match &mut self.framing {
            Framing::Json(body) => body.extend_from_slice(bytes),
            Framing::Events(decoder) => {
                if decoder.push(bytes, |event| reader.event(&event)).is_err() {
                    reader.turn.fail(Trouble::own(Outcome::Undecodable, "an event is larger than the gateway reads"));
                }
            }
        }
    }

    /// The body ended cleanly.
    pub(crate) fn end(&mut self) {
        let reader = &mut self.reader;
        match &mut self.framing {
            Framing::Events(decoder) => decoder.finish(|event| reader.event(&event)),
            Framing::Json(body) if body.is_empty() => {}
            Framing::Json(body) => reader.read(&std::mem::take(body)),
        }
        reader.turn.end();
    }

    /// The connection broke.
    pub(crate) fn break_off(&mut self, message: String) {
        self.reader.turn.fail(Trouble::own(Outcome::Server, message));
    }

    /// How far it is.
    pub(crate) fn progress(&self) -> &Progress {
        &self.reader.turn.progress
    }

    /// How many pieces (text, reasoning, fragments, finish) have come. Comments and empty events are none.
    pub(crate) fn pieces_count(&self) -> u64 {
        self.reader.turn.pieces_count
    }

    /// Whether the model has said why it stopped.
    pub(crate) fn has_finish(&self) -> bool {
        self.reader.turn.has_finish()
    }

    /// How many chunks wait to be taken.
    pub(crate) fn pending_count(&self) -> usize {
        self.reader.turn.pending.len()
    }

    /// The next chunk that is ready.
    pub(crate) fn next_chunk(&mut self) -> Option<ModelChunk> {
        self.reader.turn.pending.pop_front()
    }

    /// Why it failed, once.
    pub(crate) fn take_trouble(&mut self) -> Option<Trouble> {
        self.reader.turn.trouble.take()
    }

    /// The last usage that the vendor told.
    pub(crate) fn usage(&self) -> Option<&TokenUsage> {
        self.reader.turn.usage.as_ref()
    }
}

impl Reader {
    fn event(&mut self, event: &SseEvent<'_>) {
        if self.turn.is_over() {
            return;
        }
        match event.data {
            _ if event.is_error => self.turn.fail(trouble_of_frame(event.data, self.is_quota_throttle)),
            // OpenAI's end mark; proxies put it behind other dialects too.
            b"[DONE]" => match self.dialect {
                Events::OpenAi(_) => self.turn.done(),
                Events::Anthropic(_) | Events::Gemini(_) => self.turn.end(),
            },
            data if data.iter().all(u8::is_ascii_whitespace) => {}
            data => self.read(data),
        }
    }

    /// Reads one event, or the one object of a server that does not stream.
    fn read(&mut self, data: &[u8]) {
        let read = match &mut self.dialect {
            Events::OpenAi(openai) => openai.read(data, &mut self.turn),
            Events::Anthropic(anthropic) => anthropic.read(data, &mut self.turn),
            Events::Gemini(gemini) => gemini.read(data, &mut self.turn),
        };
        match read {
            Ok(Read::Piece) => {}
            Ok(Read::Error) => self.turn.fail(trouble_of_frame(data, self.is_quota_throttle)),
            Err(cause) => self.turn.undecodable(&cause),
        }
    }
}

/// What an event was.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Read {
    /// A piece of the answer; the turn has it.
    Piece,
    /// The report of an error instead.
    Error,
}

#[cfg(test)]
mod tests;
