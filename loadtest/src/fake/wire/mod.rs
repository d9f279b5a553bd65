//! The wire forms: one file a dialect, each reading requests and writing the frames of an answer.
//!
//! [`pace`](super::pace) knows when what is sent; here stands only how it looks.

mod anthropic;
mod gemini;
mod openai;

use super::answer::{Answer, Counts};
use super::behaviour::{Behaviour, ErrorShape, ToolShape, UsageAt};

/// In whose dialect a call came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    OpenAi,
    Anthropic,
    Gemini,
}

/// The parts of a request that the fake provider looks at. The recorded body has all of it.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) model: String,
    pub(super) messages_count: usize,
    pub(super) last_user_text: String,
    pub(super) prompt_tokens: u64,
    pub(super) is_stream: bool,
    /// OpenAI tells usage in a stream only to who asks.
    pub(super) wants_usage: bool,
}

/// One server-sent event.
#[derive(Debug, Default)]
pub(super) struct Event {
    pub(super) name: Option<&'static str>,
    pub(super) data: String,
}

/// One piece of an answer.
#[derive(Clone, Debug)]
pub(super) enum Piece {
    Reasoning(String),
    Text(String),
    Tool(ToolPiece),
}

/// A piece of a tool call, with what its shape tells.
#[derive(Clone, Debug)]
pub(super) struct ToolPiece {
    /// Which of [`TOOLS`].
    call: usize,
    index: Option<u32>,
    has_id: bool,
    has_name: bool,
    arguments: &'static str,
    /// Arguments as an object.
    is_object: bool,
}

/// Writes the frames of one answer.
#[derive(Debug)]
pub(super) enum Frames {
    OpenAi(openai::Frames),
    Anthropic(anthropic::Frames),
    Gemini(gemini::Frames),
}

impl Dialect {
    /// Reads a request. `call` is what the path says behind `models/`. Errors: what a vendor would answer 400 to.
    pub(super) fn read(self, body: &[u8], call: &str) -> Result<Request, String> {
        match self {
            Self::OpenAi => openai::read(body),
            Self::Anthropic => anthropic::read(body),
            Self::Gemini => gemini::read(body, call),
        }
    }

    pub(super) fn frames(self, number: u64, request: &Request) -> Frames {
        match self {
            Self::OpenAi => Frames::OpenAi(openai::Frames::new(number, request)),
            Self::Anthropic => Frames::Anthropic(anthropic::Frames::new(number, request)),
            Self::Gemini => Frames::Gemini(gemini::Frames::new(number, request)),
        }
    }

    /// The vendor's own way of writing an error.
    pub(super) fn error_shape(self) -> ErrorShape {
        match self {
            Self::OpenAi => ErrorShape::Openai,
            Self::Anthropic => ErrorShape::Anthropic,
            Self::Gemini => ErrorShape::Google,
        }
    }
}

impl Frames {
    pub(super) fn dialect(&self) -> Dialect {
        match self {
            Self::OpenAi(_) => Dialect::OpenAi,
            Self::Anthropic(_) => Dialect::Anthropic,
            Self::Gemini(_) => Dialect::Gemini,
        }
    }

    /// What comes before the first piece.
    pub(super) fn start(&mut self, counts: &Counts) -> Vec<Event> {
        match self {
            Self::OpenAi(frames) => vec![frames.role()],
            Self::Anthropic(frames) => vec![frames.start(counts)],
            Self::Gemini(_) => Vec::new(),
        }
    }

    /// A frame that says nothing.
    pub(super) fn nothing(&self) -> Event {
        match self {
            Self::OpenAi(frames) => frames.role(),
            Self::Anthropic(_) => anthropic::ping(),
            Self::Gemini(frames) => frames.nothing(),
        }
    }

    /// One piece. `usage`: the counts so far, where each frame tells them.
    pub(super) fn piece(&mut self, piece: Piece, usage: Option<&Counts>) -> Vec<Event> {
        match self {
            Self::OpenAi(frames) => vec![frames.piece(piece, usage)],
            Self::Anthropic(frames) => frames.piece(piece),
            Self::Gemini(frames) => frames.piece(piece, usage).into_iter().collect(),
        }
    }

    /// Everything behind the last piece. `finish`: OpenAI's name of the reason; `none`: it is not told.
    pub(super) fn tail(&mut self, finish: &str, behaviour: &Behaviour, counts: &Counts) -> Vec<Event> {
        match self {
            Self::OpenAi(frames) => frames.tail(finish, behaviour, counts),
            Self::Anthropic(frames) => frames.tail(finish, behaviour, counts),
            Self::Gemini(frames) => frames.tail(finish, behaviour, counts),
        }
    }

    /// The whole answer as one object.
    pub(super) fn whole(&self, behaviour: &Behaviour, answer: &Answer) -> String {
        let counts = answer.counts(behaviour, behaviour.reasoning + behaviour.chunks);
        let counts = (behaviour.usage != UsageAt::None).then_some(counts);
        let text = (0..behaviour.chunks).map(|index| answer.chunk(behaviour, index)).collect::<String>();
        let reasoning = (0..behaviour.reasoning).map(reasoning_text).collect::<String>();
        let has_tools = behaviour.tools.is_some();
        let finish = behaviour.finish.as_deref().unwrap_or(if has_tools { "tool_calls" } else { "stop" });
        let whole = Whole { text, reasoning, has_tools, finish, counts };
        match self {
            Self::OpenAi(frames) => frames.whole(&whole),
            Self::Anthropic(frames) => frames.whole(&whole),
            Self::Gemini(frames) => frames.whole(&whole),
        }
    }
}

/// An answer in one piece.
struct Whole<'a> {
    text: String,
    reasoning: String,
    has_tools: bool,
    finish: &'a str,
    counts: Option<Counts>,
}

pub(super) fn reasoning_text(index: u32) -> String {
    format!("thought-{} ", index + 1)
}

/// The calls that `tools=…` makes: id, name, arguments.
const TOOLS: [(&str, &str, &str); 2] =
    [("call_1", "calculator", r#"{"expression":"6*7"}"#), ("call_2", "now", r#"{"zone":"UTC"}"#)];

/// The pieces that carry the tool calls in a shape.
pub(super) fn tool_pieces(shape: ToolShape) -> Vec<ToolPiece> {
    let [(_, _, arguments_1), (_, _, arguments_2)] = TOOLS;
    let (start_1, end_1) = arguments_1.split_at(9);
    let (start_2, end_2) = arguments_2.split_at(4);
    let begin =
        |call, index, arguments| ToolPiece { call, index, has_id: true, has_name: true, arguments, is_object: false };
    let more = |call, index, arguments| ToolPiece { has_id: false, has_name: false, ..begin(call, index, arguments) };
    match shape {
        ToolShape::Indexed => vec![
            begin(0, Some(0), ""),
            more(0, Some(0), start_1),
            more(0, Some(0), end_1),
            begin(1, Some(1), ""),
            more(1, Some(1), arguments_2),
        ],
        ToolShape::Interleaved => vec![
            begin(0, Some(0), start_1),
            begin(1, Some(1), start_2),
            more(0, Some(0), end_1),
            more(1, Some(1), end_2),
        ],
        ToolShape::NoId => vec![
            ToolPiece { has_id: false, ..begin(0, Some(0), arguments_1) },
            ToolPiece { has_id: false, ..begin(1, Some(1), arguments_2) },
        ],
        ToolShape::Index0 => vec![begin(0, Some(0), arguments_1), begin(1, Some(0), arguments_2)],
        ToolShape::NoIndex => vec![begin(0, None, start_1), more(0, None, end_1), begin(1, None, arguments_2)],
        ToolShape::Object => vec![
            ToolPiece { is_object: true, ..begin(0, Some(0), arguments_1) },
            ToolPiece { is_object: true, ..begin(1, Some(0), arguments_2) },
        ],
        ToolShape::Truncated => vec![begin(0, Some(0), start_1)],
    }
}

fn json(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
