//! Google's `generateContent`. As strict as its newer models where a gateway errs: the first call of a turn comes back with
//! its signature, and a result names its function.

use serde::Deserialize;
use serde_json::{Value, json};

use super::{Event, Piece, Request, TOOLS, Whole};
use crate::fake::answer::Counts;
use crate::fake::behaviour::{Behaviour, UsageAt};

/// Signs the first call of every turn; base64, as the vendor's are.
const SIGNATURE: &str = "ZmFrZQ==";

#[derive(Deserialize)]
struct GenerateRequest {
    contents: Vec<Content>,
}

#[derive(Deserialize)]
struct Content {
    #[serde(default)]
    role: Option<String>,
    #[serde(default)]
    parts: Vec<Value>,
}

pub(super) fn read(body: &[u8], call: &str) -> Result<Request, String> {
    let (model, method) = call.rsplit_once(':').ok_or("the path names no method")?;
    let request: GenerateRequest = serde_json::from_slice(body).map_err(|cause| cause.to_string())?;
    for content in &request.contents {
        let calls = content.parts.iter().filter(|part| part.get("functionCall").is_some());
        if let Some(part) = calls.take(1).find(|part| part["thoughtSignature"].as_str().is_none_or(str::is_empty)) {
            return Err(format!("Function call is missing a thought_signature: {part}"));
        }
        let mut results = content.parts.iter().filter_map(|part| part.get("functionResponse"));
        if results.any(|result| result["name"].as_str().is_none_or(str::is_empty) || !result["response"].is_object()) {
            return Err("function_response.name: Name cannot be empty.".to_owned());
        }
    }
    let of_user = request.contents.iter().filter(|content| content.role.as_deref() != Some("model"));
    let text = |content: &Content| {
        let texts = content.parts.iter().filter_map(|part| part.get("text")?.as_str());
        texts.collect::<Vec<_>>().join("\n")
    };
    let bytes = |content: &Content| content.parts.iter().map(|part| part.to_string().len()).sum::<usize>();
    Ok(Request {
        model: model.to_owned(),
        messages_count: request.contents.len(),
        last_user_text: of_user.map(text).rfind(|text| !text.is_empty()).unwrap_or_default(),
        prompt_tokens: request.contents.iter().map(|one| 4 + u64::try_from(bytes(one)).unwrap_or(0) / 4).sum(),
        is_stream: method == "streamGenerateContent",
        wants_usage: true,
    })
}

/// Writes the frames of one answer.
#[derive(Debug)]
pub(in crate::fake) struct Frames {
    id: String,
    model: String,
    /// Arguments of each call so far: here a call comes whole.
    arguments: [String; TOOLS.len()],
}

impl Frames {
    pub(super) fn new(number: u64, request: &Request) -> Self {
        Self { id: format!("fake-{number}"), model: request.model.clone(), arguments: Default::default() }
    }

    pub(super) fn nothing(&self) -> Event {
        self.frame(&json!([{"text": ""}]), None, None)
    }

    pub(super) fn piece(&mut self, piece: Piece, usage: Option<&Counts>) -> Option<Event> {
        let part = match piece {
            Piece::Reasoning(text) => json!({"text": text, "thought": true}),
            Piece::Text(text) => json!({"text": text}),
            Piece::Tool(piece) => {
                let arguments = &mut self.arguments[piece.call];
                arguments.push_str(piece.arguments);
                call(piece.call, &serde_json::from_str(arguments).ok()?)
            }
        };
        Some(self.frame(&json!([part]), None, usage))
    }

    pub(super) fn tail(&self, finish: &str, behaviour: &Behaviour, counts: &Counts) -> Vec<Event> {
        let usage = (behaviour.usage != UsageAt::None).then_some(counts);
        let finish = (finish != "none").then(|| finish_reason(finish));
        match (&finish, usage) {
            (None, None) => Vec::new(),
            _ => vec![self.frame(&json!([]), finish.as_deref(), usage)],
        }
    }

    pub(super) fn whole(&self, whole: &Whole<'_>) -> String {
        let mut parts = Vec::new();
        if !whole.reasoning.is_empty() {
            parts.push(json!({"text": whole.reasoning, "thought": true}));
        }
        if whole.has_tools {
            let calls = TOOLS.iter().enumerate();
            parts.extend(calls.filter_map(|(index, tool)| Some(call(index, &serde_json::from_str(tool.2).ok()?))));
        } else {
            parts.push(json!({"text": whole.text}));
        }
        self.frame(&json!(parts), Some(&finish_reason(whole.finish)), whole.counts.as_ref()).data
    }

    fn frame(&self, parts: &Value, finish: Option<&str>, counts: Option<&Counts>) -> Event {
        let mut candidate = json!({"content": {"parts": parts, "role": "model"}, "index": 0});
        if let Some(finish) = finish {
            candidate["finishReason"] = json!(finish);
        }
        let mut frame = json!({"candidates": [candidate], "modelVersion": self.model, "responseId": self.id});
        if let Some(counts) = counts {
            frame["usageMetadata"] = usage(counts);
        }
        Event { name: None, data: frame.to_string() }
    }
}

fn call(index: usize, arguments: &Value) -> Value {
    let mut part = json!({"functionCall": {"name": TOOLS[index].1, "args": arguments}});
    if index == 0 {
        part["thoughtSignature"] = json!(SIGNATURE);
    }
    part
}

/// Here output leaves out the thoughts.
fn usage(counts: &Counts) -> Value {
    let Counts { input, output, cached, reasoning } = counts;
    let mut usage = json!({"promptTokenCount": input, "totalTokenCount": input + output,
        "candidatesTokenCount": output - reasoning.unwrap_or(0)});
    if let Some(reasoning) = reasoning {
        usage["thoughtsTokenCount"] = json!(reasoning);
    }
    if let Some(cached) = cached {
        usage["cachedContentTokenCount"] = json!(cached);
    }
    usage
}

fn finish_reason(finish: &str) -> String {
    match finish {
        "stop" | "tool_calls" => "STOP".to_owned(),
        "length" => "MAX_TOKENS".to_owned(),
        "content_filter" => "SAFETY".to_owned(),
        other => other.to_uppercase(),
    }
}
