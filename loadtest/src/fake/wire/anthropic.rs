//! Anthropic's Messages. As strict as the vendor where a gateway errs: the output cap is required, empty texts are refused,
//! and reasoning comes back with the signature under which it was sent.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::openai::text;
use super::{Event, Piece, Request, TOOLS, Whole};
use crate::fake::answer::Counts;
use crate::fake::behaviour::{Behaviour, UsageAt};

/// Signs every block of reasoning.
const SIGNATURE: &str = "fake-signature";

#[derive(Deserialize)]
struct MessagesRequest<'a> {
    model: String,
    #[serde(default)]
    max_tokens: Option<u64>,
    #[serde(borrow)]
    messages: Vec<Message<'a>>,
    #[serde(default)]
    stream: bool,
}

#[derive(Deserialize)]
struct Message<'a> {
    role: String,
    #[serde(borrow)]
    content: &'a RawValue,
}

pub(super) fn read(body: &[u8]) -> Result<Request, String> {
    let request: MessagesRequest<'_> = serde_json::from_slice(body).map_err(|cause| cause.to_string())?;
    if request.max_tokens.is_none_or(|tokens| tokens == 0) {
        return Err("max_tokens: Field required".to_owned());
    }
    for (index, message) in request.messages.iter().enumerate() {
        if !matches!(message.role.as_str(), "user" | "assistant") {
            return Err(format!("messages.{index}.role: Input should be 'user' or 'assistant'"));
        }
        for block in serde_json::from_str::<Vec<Value>>(message.content.get()).unwrap_or_default() {
            check(&block).map_err(|mistake| format!("messages.{index}.content: {mistake}"))?;
        }
    }
    let mut texts =
        request.messages.iter().filter(|message| message.role == "user").map(|message| text(message.content));
    let tokens = |message: &Message<'_>| 4 + u64::try_from(message.content.get().len()).unwrap_or(0) / 4;
    Ok(Request {
        messages_count: request.messages.len(),
        last_user_text: texts.rfind(|text| !text.is_empty()).unwrap_or_default(),
        prompt_tokens: request.messages.iter().map(tokens).sum(),
        is_stream: request.stream,
        wants_usage: true,
        model: request.model,
    })
}

fn check(block: &Value) -> Result<(), &'static str> {
    match block["type"].as_str() {
        Some("text") if block["text"] == "" => Err("text content blocks must be non-empty"),
        Some("thinking") if block["signature"] != SIGNATURE => Err("Invalid `signature` in `thinking` block"),
        Some("tool_use") if !block["input"].is_object() => Err("tool_use.input: Input should be a valid dictionary"),
        Some(_) => Ok(()),
        None => Err("type: Field required"),
    }
}

/// Writes the frames of one answer.
#[derive(Debug)]
pub(in crate::fake) struct Frames {
    id: String,
    model: String,
    /// Blocks begun so far.
    blocks_count: usize,
    /// The open block of text or reasoning.
    open: Option<(usize, &'static str)>,
    /// Blocks of tool calls, by call.
    calls: [Option<usize>; TOOLS.len()],
}

impl Frames {
    pub(super) fn new(number: u64, request: &Request) -> Self {
        let id = format!("msg_fake_{number}");
        Self { id, model: request.model.clone(), blocks_count: 0, open: None, calls: [None; TOOLS.len()] }
    }

    pub(super) fn start(&self, counts: &Counts) -> Event {
        let message = json!({
            "id": self.id, "type": "message", "role": "assistant", "model": self.model, "content": [],
            "stop_reason": null, "stop_sequence": null, "usage": usage(counts, 1),
        });
        event("message_start", &json!({"type": "message_start", "message": message}))
    }

    pub(super) fn piece(&mut self, piece: Piece) -> Vec<Event> {
        let mut events = Vec::new();
        match piece {
            Piece::Reasoning(text) => {
                let index =
                    self.block("thinking", &json!({"type": "thinking", "thinking": "", "signature": ""}), &mut events);
                events.push(delta(index, &json!({"type": "thinking_delta", "thinking": text})));
            }
            Piece::Text(text) => {
                let index = self.block("text", &json!({"type": "text", "text": ""}), &mut events);
                events.push(delta(index, &json!({"type": "text_delta", "text": text})));
            }
            Piece::Tool(piece) => {
                self.close(&mut events);
                let (id, name, _) = TOOLS[piece.call];
                let index = match self.calls[piece.call] {
                    Some(index) => index,
                    None => {
                        let input = if piece.is_object { piece.arguments } else { "{}" };
                        let input: Value = serde_json::from_str(input).unwrap_or_default();
                        let block = json!({"type": "tool_use", "id": id, "name": name, "input": input});
                        let index = self.begin(&block, &mut events);
                        self.calls[piece.call] = Some(index);
                        index
                    }
                };
                if !piece.is_object {
                    events.push(delta(index, &json!({"type": "input_json_delta", "partial_json": piece.arguments})));
                }
            }
        }
        events
    }

    pub(super) fn tail(&mut self, finish: &str, behaviour: &Behaviour, counts: &Counts) -> Vec<Event> {
        let mut events = Vec::new();
        self.close(&mut events);
        events.extend(self.calls.into_iter().flatten().map(stop));
        if finish != "none" {
            let mut message_delta =
                json!({"type": "message_delta", "delta": {"stop_reason": stop_reason(finish), "stop_sequence": null}});
            if behaviour.usage != UsageAt::None {
                message_delta["usage"] = usage(counts, counts.output);
            }
            events.push(event("message_delta", &message_delta));
        }
        if behaviour.has_done {
            events.push(event("message_stop", &json!({"type": "message_stop"})));
        }
        events
    }

    pub(super) fn whole(&self, whole: &Whole<'_>) -> String {
        let mut content = Vec::new();
        if !whole.reasoning.is_empty() {
            content.push(json!({"type": "thinking", "thinking": whole.reasoning, "signature": SIGNATURE}));
        }
        if whole.has_tools {
            content.extend(TOOLS.map(|(id, name, arguments)| {
                let input: Value = serde_json::from_str(arguments).unwrap_or_default();
                json!({"type": "tool_use", "id": id, "name": name, "input": input})
            }));
        } else {
            content.push(json!({"type": "text", "text": whole.text}));
        }
        let mut message = json!({
            "id": self.id, "type": "message", "role": "assistant", "model": self.model, "content": content,
            "stop_reason": stop_reason(whole.finish), "stop_sequence": null,
        });
        if let Some(counts) = &whole.counts {
            message["usage"] = usage(counts, counts.output);
        }
        message.to_string()
    }

    /// The open block of this kind, begun if need be.
    fn block(&mut self, kind: &'static str, begun: &Value, events: &mut Vec<Event>) -> usize {
        match self.open {
            Some((index, open)) if open == kind => index,
            _ => {
                self.close(events);
                let index = self.begin(begun, events);
                self.open = Some((index, kind));
                index
            }
        }
    }

    fn begin(&mut self, block: &Value, events: &mut Vec<Event>) -> usize {
        let index = self.blocks_count;
        self.blocks_count += 1;
        let data = json!({"type": "content_block_start", "index": index, "content_block": block});
        events.push(event("content_block_start", &data));
        index
    }

    fn close(&mut self, events: &mut Vec<Event>) {
        if let Some((index, kind)) = self.open.take() {
            if kind == "thinking" {
                events.push(delta(index, &json!({"type": "signature_delta", "signature": SIGNATURE})));
            }
            events.push(stop(index));
        }
    }
}

pub(super) fn ping() -> Event {
    event("ping", &json!({"type": "ping"}))
}

fn event(name: &'static str, data: &Value) -> Event {
    Event { name: Some(name), data: data.to_string() }
}

fn delta(index: usize, delta: &Value) -> Event {
    event("content_block_delta", &json!({"type": "content_block_delta", "index": index, "delta": delta}))
}

fn stop(index: usize) -> Event {
    event("content_block_stop", &json!({"type": "content_block_stop", "index": index}))
}

/// Here input leaves out what a cache gave.
fn usage(counts: &Counts, output: u64) -> Value {
    let cached = counts.cached.unwrap_or(0);
    let mut usage = json!({"input_tokens": counts.input.saturating_sub(cached), "output_tokens": output,
        "cache_read_input_tokens": cached, "cache_creation_input_tokens": 0});
    if let Some(reasoning) = counts.reasoning.filter(|_| output == counts.output) {
        usage["output_tokens_details"] = json!({"thinking_tokens": reasoning});
    }
    usage
}

fn stop_reason(finish: &str) -> &str {
    match finish {
        "stop" => "end_turn",
        "length" => "max_tokens",
        "tool_calls" => "tool_use",
        "content_filter" => "refusal",
        other => other,
    }
}
