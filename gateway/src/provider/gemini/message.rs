//! Messages as Google writes them: instructions apart, parts by kind, results by the name of their function.

use std::collections::HashMap;

use serde::Serialize;
use serde_json::value::RawValue;

use crate::settings::Exit;
use crate::{ChatMessage, Content as Said, Fields, ImageSource, Part as SaidPart, ToolCall};

/// Stands for a signature where a call was made elsewhere: newer models refuse a call that has none, and know this word.
const FOREIGN_SIGNATURE: &str = "skip_thought_signature_validator";

/// One message.
#[derive(Serialize)]
pub(super) struct Content<'a> {
    role: Role,
    parts: Vec<Part<'a>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Role {
    User,
    Model,
}

/// One part of a message.
#[derive(Serialize)]
#[serde(untagged, rename_all_fields = "camelCase")]
pub(super) enum Part<'a> {
    Text {
        text: &'a str,
    },
    Inline {
        inline_data: Blob<'a>,
    },
    File {
        file_data: FileData<'a>,
    },
    Call {
        function_call: Call<'a>,
        #[serde(flatten)]
        marks: Option<&'a Fields>,
        #[serde(skip_serializing_if = "Option::is_none")]
        thought_signature: Option<&'static str>,
    },
    Result {
        function_response: FunctionResponse<'a>,
    },
    /// Passed through as it stands.
    Other(&'a RawValue),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Blob<'a> {
    mime_type: &'a str,
    data: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FileData<'a> {
    file_uri: &'a str,
}

#[derive(Serialize)]
pub(super) struct Call<'a> {
    id: &'a str,
    name: &'a str,
    args: Args<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Args<'a> {
    Object(&'a RawValue),
    /// Arguments that are no JSON object: cut by a length, or the model's mistake.
    Text {
        arguments: &'a str,
    },
}

#[derive(Serialize)]
pub(super) struct FunctionResponse<'a> {
    id: &'a str,
    name: &'a str,
    response: Response,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Response {
    Object(Box<RawValue>),
    Text { result: String },
}

/// Instructions and conversation for `exit`.
pub(super) fn conversation<'a>(messages: &'a [ChatMessage], exit: &Exit) -> (Vec<Part<'a>>, Vec<Content<'a>>) {
    let (mut system, mut contents) = (Vec::new(), Vec::<Content<'a>>::new());
    let mut functions = HashMap::<&str, &str>::new();
    for message in messages {
        let (role, parts) = match message {
            ChatMessage::System { content, .. } => {
                system.extend(parts(content));
                continue;
            }
            ChatMessage::User { content, .. } => (Role::User, parts(content)),
            ChatMessage::Tool { content, tool_call_id, .. } => {
                let name = functions.get(tool_call_id.as_str()).copied().unwrap_or(tool_call_id);
                (Role::User, result(tool_call_id, name, content))
            }
            ChatMessage::Assistant(said) => {
                functions.extend(said.tool_calls.iter().map(|call| (call.id.as_str(), call.name.as_str())));
                // Who made calls without any signature is not known, or was another: then they get the word for it.
                let is_signed = said.tool_calls.iter().any(|call| !call.marks.is_empty());
                let is_own = said.is_of(exit) && (is_signed || said.exit.is_some());
                let calls = said.tool_calls.iter().map(|call| call_part(call, is_own));
                (Role::Model, said.content.iter().flat_map(parts).chain(calls).collect())
            }
        };
        match contents.last_mut() {
            _ if parts.is_empty() => {}
            Some(last) if last.role == role => last.parts.extend(parts),
            _ => contents.push(Content { role, parts }),
        }
    }
    (system, contents)
}

fn parts(content: &Said) -> Vec<Part<'_>> {
    match content {
        Said::Text(text) if text.is_empty() => Vec::new(),
        Said::Text(text) => vec![Part::Text { text }],
        Said::Parts(parts) => parts.iter().map(part).collect(),
    }
}

fn part(part: &SaidPart) -> Part<'_> {
    match part {
        SaidPart::Text { text, .. } => Part::Text { text },
        SaidPart::Image(image) => match &image.source {
            ImageSource::Url(url) => Part::File { file_data: FileData { file_uri: url } },
            ImageSource::Base64 { media_type, data } => {
                Part::Inline { inline_data: Blob { mime_type: media_type, data } }
            }
        },
        SaidPart::Other(raw) => Part::Other(raw),
    }
}

fn call_part(call: &ToolCall, is_own: bool) -> Part<'_> {
    let object = serde_json::from_str::<&RawValue>(&call.arguments).ok().filter(|raw| raw.get().starts_with('{'));
    let args = object.map_or(Args::Text { arguments: &call.arguments }, Args::Object);
    Part::Call {
        function_call: Call { id: &call.id, name: &call.name, args },
        marks: is_own.then_some(&call.marks),
        thought_signature: (!is_own).then_some(FOREIGN_SIGNATURE),
    }
}

/// The result of a call; images of it stand behind.
fn result<'a>(id: &'a str, name: &'a str, content: &'a Said) -> Vec<Part<'a>> {
    let text = content.text();
    let object = serde_json::from_str::<Box<RawValue>>(&text).ok().filter(|raw| raw.get().starts_with('{'));
    let response = object.map_or_else(|| Response::Text { result: text.into_owned() }, Response::Object);
    let others = match content {
        Said::Text(_) => &[],
        Said::Parts(parts) => parts.as_slice(),
    };
    let others = others.iter().filter(|part| !matches!(part, SaidPart::Text { .. })).map(part);
    std::iter::once(Part::Result { function_response: FunctionResponse { id, name, response } }).chain(others).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::Said as ModelSaid;

    fn own() -> Exit {
        Exit { provider: "p".into(), model: "gemini".into() }
    }

    fn written(messages: &[ChatMessage]) -> Value {
        serde_json::to_value(conversation(messages, &own()).1).unwrap()
    }

    fn calls(marks: &Value) -> Vec<ToolCall> {
        let call = |id: &str, arguments: &str, marks: &Value| ToolCall {
            id: id.into(),
            name: format!("f-{id}"),
            arguments: arguments.into(),
            marks: serde_json::from_value(marks.clone()).unwrap(),
        };
        vec![call("a", r#"{"x": 1}"#, marks), call("b", "[1]", &json!({}))]
    }

    #[test]
    fn results_name_their_function_and_stand_together() {
        let said = ModelSaid {
            tool_calls: calls(&json!({"thoughtSignature": "s"})),
            exit: Some(own()),
            ..ModelSaid::default()
        };
        let image = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}});
        let image = SaidPart::read(&serde_json::value::to_raw_value(&image).unwrap());
        assert_eq!(
            written(&[
                ChatMessage::user("hi"),
                ChatMessage::Assistant(said),
                ChatMessage::tool("a", r#"{"y": 2}"#),
                ChatMessage::tool("b", Said::Parts(vec![SaidPart::text("42"), image])),
            ]),
            json!([
                {"role": "user", "parts": [{"text": "hi"}]},
                {"role": "model", "parts": [
                    {"functionCall": {"id": "a", "name": "f-a", "args": {"x": 1}}, "thoughtSignature": "s"},
                    {"functionCall": {"id": "b", "name": "f-b", "args": {"arguments": "[1]"}}}]},
                {"role": "user", "parts": [
                    {"functionResponse": {"id": "a", "name": "f-a", "response": {"y": 2}}},
                    {"functionResponse": {"id": "b", "name": "f-b", "response": {"result": "42"}}},
                    {"inlineData": {"mimeType": "image/png", "data": "AA"}}]},
            ])
        );
    }

    #[test]
    fn signatures_go_back_to_their_own_exit_and_foreign_calls_say_so() {
        let signatures = |marks: Value, exit| {
            let said = ModelSaid { tool_calls: calls(&marks), exit, ..ModelSaid::default() };
            let parts = written(&[ChatMessage::Assistant(said)])[0]["parts"].clone();
            [parts[0]["thoughtSignature"].clone(), parts[1]["thoughtSignature"].clone()]
        };
        let other = Exit { provider: "q".into(), model: "gemini".into() };
        let signed = json!({"thoughtSignature": "s"});
        assert_eq!(signatures(signed.clone(), Some(own())), [json!("s"), Value::Null]);
        assert_eq!(signatures(signed.clone(), None), [json!("s"), Value::Null]);
        assert_eq!(signatures(json!({}), Some(own())), [Value::Null, Value::Null], "an older model signs nothing");
        assert_eq!(signatures(signed, Some(other)), [json!(FOREIGN_SIGNATURE), json!(FOREIGN_SIGNATURE)]);
        assert_eq!(signatures(json!({}), None), [json!(FOREIGN_SIGNATURE), json!(FOREIGN_SIGNATURE)]);
    }
}
