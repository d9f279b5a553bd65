//! OpenAI's chat completions.

use std::fmt::Write;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Event, Piece, Request, TOOLS, ToolPiece, Whole, json};
use crate::fake::answer::Counts;
use crate::fake::behaviour::{Behaviour, UsageAt};

const ROLE: &str = r#"{"role":"assistant","content":""}"#;

#[derive(Deserialize)]
struct ChatRequest<'a> {
    model: String,
    #[serde(borrow)]
    messages: Vec<ChatMessage<'a>>,
    #[serde(default)]
    stream: Option<bool>,
    #[serde(default)]
    stream_options: Option<StreamOptions>,
}

#[derive(Deserialize)]
struct ChatMessage<'a> {
    role: String,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct StreamOptions {
    include_usage: bool,
}

pub(super) fn read(body: &[u8]) -> Result<Request, String> {
    let request: ChatRequest<'_> = serde_json::from_slice(body).map_err(|cause| cause.to_string())?;
    let is_stream = request.stream == Some(true);
    if request.stream_options.is_some() && !is_stream {
        return Err("stream_options without stream: true".to_owned());
    }
    let last = request.messages.iter().rev().find(|message| message.role == "user");
    // Four tokens a message and one for every four bytes of content.
    let tokens = |message: &ChatMessage<'_>| {
        4 + message.content.map_or(0, |content| u64::try_from(content.get().len()).unwrap_or(0) / 4)
    };
    Ok(Request {
        messages_count: request.messages.len(),
        last_user_text: last.and_then(|message| message.content).map(text).unwrap_or_default(),
        prompt_tokens: request.messages.iter().map(tokens).sum(),
        is_stream,
        wants_usage: is_stream && request.stream_options.is_some_and(|options| options.include_usage),
        model: request.model,
    })
}

/// Text of a content: a string, or the texts of its parts. Anthropic writes contents alike.
pub(super) fn text(content: &RawValue) -> String {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Content {
        Text(String),
        Parts(Vec<Part>),
    }

    #[derive(Deserialize)]
    struct Part {
        text: Option<String>,
    }

    match serde_json::from_str(content.get()) {
        Ok(Content::Text(text)) => text,
        Ok(Content::Parts(parts)) => parts.into_iter().filter_map(|part| part.text).collect::<Vec<_>>().join("\n"),
        Err(_) => String::new(),
    }
}

/// Writes the frames of one answer.
#[derive(Debug)]
pub(in crate::fake) struct Frames {
    /// `id`, `created` and `model` of every frame, as JSON members.
    head: String,
    /// OpenAI writes `usage: null` into every chunk once usage was asked for.
    wants_usage: bool,
}

impl Frames {
    pub(super) fn new(number: u64, request: &Request) -> Self {
        let model = json(&request.model);
        let head = format!(r#""id":"chatcmpl-fake-{number}","created":1700000000,"model":{model}"#);
        Self { head, wants_usage: request.wants_usage }
    }

    pub(super) fn role(&self) -> Event {
        self.chunk(ROLE, None, "", None)
    }

    pub(super) fn piece(&self, piece: Piece, usage: Option<&Counts>) -> Event {
        let delta = match piece {
            Piece::Reasoning(text) => format!(r#"{{"reasoning_content":{}}}"#, json(&text)),
            Piece::Text(text) => format!(r#"{{"content":{}}}"#, json(&text)),
            Piece::Tool(piece) => format!(r#"{{"tool_calls":[{}]}}"#, call(&piece)),
        };
        self.chunk(&delta, None, "", usage)
    }

    pub(super) fn tail(&self, finish: &str, behaviour: &Behaviour, counts: &Counts) -> Vec<Event> {
        let mut events = Vec::new();
        let at = behaviour.usage;
        if finish != "none" {
            let in_choice = (at == UsageAt::Choice).then(|| format!(r#","usage":{}"#, usage(counts)));
            let in_frame = matches!(at, UsageAt::Finish | UsageAt::Each).then_some(counts);
            events.push(self.chunk("{}", Some(finish), &in_choice.unwrap_or_default(), in_frame));
        }
        if at == UsageAt::Last && self.wants_usage {
            let (head, usage) = (&self.head, usage(counts));
            events.push(event(format!(r#"{{{head},"object":"chat.completion.chunk","choices":[],"usage":{usage}}}"#)));
        }
        if behaviour.has_done {
            events.push(event("[DONE]".to_owned()));
        }
        events
    }

    /// A chunk with this `delta`. `extra` goes into the choice.
    fn chunk(&self, delta: &str, finish: Option<&str>, extra: &str, counts: Option<&Counts>) -> Event {
        let head = &self.head;
        let finish = finish.map_or_else(|| "null".to_owned(), |reason| format!(r#""{reason}""#));
        let usage = match counts {
            Some(counts) => format!(r#","usage":{}"#, usage(counts)),
            None if self.wants_usage => r#","usage":null"#.to_owned(),
            None => String::new(),
        };
        event(format!(
            r#"{{{head},"object":"chat.completion.chunk","choices":[{{"index":0,"delta":{delta},"finish_reason":{finish}{extra}}}]{usage}}}"#
        ))
    }

    /// The whole answer as one `chat.completion`.
    pub(super) fn whole(&self, whole: &Whole<'_>) -> String {
        let (head, finish) = (&self.head, whole.finish);
        let reasoning = match whole.reasoning.as_str() {
            "" => String::new(),
            text => format!(r#","reasoning_content":{}"#, json(text)),
        };
        let (content, calls) = if whole.has_tools {
            let pieces = (0..TOOLS.len()).map(|call| ToolPiece {
                call,
                index: None,
                has_id: true,
                has_name: true,
                arguments: TOOLS[call].2,
                is_object: false,
            });
            let calls: Vec<_> = pieces.map(|piece| call(&piece)).collect();
            ("null".to_owned(), format!(r#","tool_calls":[{}]"#, calls.join(",")))
        } else {
            (json(&whole.text), String::new())
        };
        let usage = whole.counts.as_ref().map(|counts| format!(r#","usage":{}"#, usage(counts))).unwrap_or_default();
        format!(
            r#"{{{head},"object":"chat.completion","choices":[{{"index":0,"message":{{"role":"assistant","content":{content}{reasoning}{calls}}},"finish_reason":"{finish}"}}]{usage}}}"#
        )
    }
}

fn event(data: String) -> Event {
    Event { name: None, data }
}

fn usage(counts: &Counts) -> String {
    let Counts { input, output, cached, reasoning } = counts;
    let total = input + output;
    let mut json = format!(r#"{{"prompt_tokens":{input},"completion_tokens":{output},"total_tokens":{total}"#);
    // Writing to a String cannot fail.
    if let Some(cached) = cached {
        _ = write!(json, r#","prompt_tokens_details":{{"cached_tokens":{cached}}}"#);
    }
    if let Some(reasoning) = reasoning {
        _ = write!(json, r#","completion_tokens_details":{{"reasoning_tokens":{reasoning}}}"#);
    }
    json.push('}');
    json
}

fn call(piece: &ToolPiece) -> String {
    let (id, name, _) = TOOLS[piece.call];
    let index = piece.index.map(|index| format!(r#""index":{index}"#));
    let id = piece.has_id.then(|| format!(r#""id":"{id}","type":"function""#));
    let name = if piece.has_name { format!(r#""name":"{name}","#) } else { String::new() };
    let arguments = if piece.is_object { piece.arguments.to_owned() } else { json(piece.arguments) };
    let function = Some(format!(r#""function":{{{name}"arguments":{arguments}}}"#));
    format!("{{{}}}", [index, id, function].into_iter().flatten().collect::<Vec<_>>().join(","))
}
