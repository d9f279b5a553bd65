//! Messages as Anthropic writes them: instructions apart, neighbours of one role joined, results of tools first.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::value::RawValue;

use crate::settings::Exit;
use crate::{ChatMessage, Content, Fields, ImageSource, Part, Reasoning, Said, ToolCall};

/// One message.
#[derive(Serialize)]
pub(super) struct Message<'a> {
    role: Role,
    content: Vec<Block<'a>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Role {
    User,
    Assistant,
}

/// One block of a message.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Block<'a> {
    Known(Known<'a>),
    /// Passed through as it stands.
    Other(&'a RawValue),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Known<'a> {
    Text {
        text: &'a str,
        #[serde(flatten)]
        fields: Option<&'a Fields>,
    },
    Image {
        source: Source<'a>,
        #[serde(flatten)]
        fields: &'a Fields,
    },
    Thinking {
        thinking: &'a str,
        #[serde(flatten)]
        marks: &'a Fields,
    },
    RedactedThinking {
        #[serde(flatten)]
        marks: &'a Fields,
    },
    ToolUse {
        id: Cow<'a, str>,
        name: &'a str,
        input: Input<'a>,
    },
    ToolResult {
        tool_use_id: Cow<'a, str>,
        content: Vec<Block<'a>>,
        #[serde(flatten)]
        fields: &'a Fields,
    },
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Source<'a> {
    Url { url: &'a str },
    Base64 { media_type: &'a str, data: &'a str },
}

#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Input<'a> {
    Object(&'a RawValue),
    /// Arguments that are no JSON object: cut by a length, or the model's mistake.
    Text {
        arguments: &'a str,
    },
}

/// Instructions and conversation for `exit`.
pub(super) fn conversation<'a>(messages: &'a [ChatMessage], exit: &Exit) -> (Vec<Block<'a>>, Vec<Message<'a>>) {
    let (mut system, mut turns) = (Vec::new(), Vec::<Message<'a>>::new());
    for message in messages {
        let (role, blocks) = match message {
            ChatMessage::System { content, .. } => {
                system.extend(blocks(content));
                continue;
            }
            ChatMessage::User { content, .. } => (Role::User, blocks(content)),
            ChatMessage::Tool { content, tool_call_id, fields } => {
                let tool_use_id = own_id(tool_call_id);
                let result = Known::ToolResult { tool_use_id, content: blocks(content), fields };
                (Role::User, vec![Block::Known(result)])
            }
            ChatMessage::Assistant(said) => (Role::Assistant, said_blocks(said, exit)),
        };
        match turns.last_mut() {
            _ if blocks.is_empty() => {}
            Some(last) if last.role == role => last.content.extend(blocks),
            _ => turns.push(Message { role, content: blocks }),
        }
    }
    (system, turns)
}

/// Empty texts are an error at the vendor's.
fn blocks(content: &Content) -> Vec<Block<'_>> {
    match content {
        Content::Text(text) => text_block(text, None).into_iter().collect(),
        Content::Parts(parts) => parts.iter().filter_map(block).collect(),
    }
}

fn text_block<'a>(text: &'a str, fields: Option<&'a Fields>) -> Option<Block<'a>> {
    (!text.is_empty()).then_some(Block::Known(Known::Text { text, fields }))
}

fn block(part: &Part) -> Option<Block<'_>> {
    match part {
        Part::Text { text, fields } => text_block(text, Some(fields)),
        Part::Image(image) => {
            let source = match &image.source {
                ImageSource::Url(url) => Source::Url { url },
                ImageSource::Base64 { media_type, data } => Source::Base64 { media_type, data },
            };
            Some(Block::Known(Known::Image { source, fields: &image.fields }))
        }
        Part::Other(raw) => Some(Block::Other(raw)),
    }
}

/// Reasoning must stand first, and only what the vendor signed is taken back.
fn said_blocks<'a>(said: &'a Said, exit: &Exit) -> Vec<Block<'a>> {
    let own_reasoning = if said.is_of(exit) { said.reasoning.as_slice() } else { &[] };
    let reasoning = own_reasoning.iter().filter_map(reasoning_block);
    let content = said.content.iter().flat_map(blocks);
    reasoning.chain(content).chain(said.tool_calls.iter().map(call_block)).collect()
}

fn reasoning_block(block: &Reasoning) -> Option<Block<'_>> {
    let marks = &block.marks;
    if marks.get("data").is_some() {
        Some(Block::Known(Known::RedactedThinking { marks }))
    } else if marks.get("signature").is_some() {
        Some(Block::Known(Known::Thinking { thinking: &block.text, marks }))
    } else {
        None
    }
}

fn call_block(call: &ToolCall) -> Block<'_> {
    let object = serde_json::from_str::<&RawValue>(&call.arguments).ok().filter(|raw| raw.get().starts_with('{'));
    let input = object.map_or(Input::Text { arguments: &call.arguments }, Input::Object);
    Block::Known(Known::ToolUse { id: own_id(&call.id), name: &call.name, input })
}

/// Ids of other vendors' calls may have characters that this one refuses.
fn own_id(id: &str) -> Cow<'_, str> {
    let is_fine = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if id.chars().all(is_fine) {
        Cow::Borrowed(id)
    } else {
        Cow::Owned(id.chars().map(|c| if is_fine(c) { c } else { '_' }).collect())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn own() -> Exit {
        Exit { provider: "p".into(), model: "claude".into() }
    }

    fn written(messages: &[ChatMessage]) -> (Value, Value) {
        let (system, messages) = conversation(messages, &own());
        (serde_json::to_value(system).unwrap(), serde_json::to_value(messages).unwrap())
    }

    fn call(id: &str, arguments: &str) -> ToolCall {
        ToolCall { id: id.into(), name: "f".into(), arguments: arguments.into(), marks: Fields::new() }
    }

    #[test]
    fn a_conversation_with_tools_alternates_and_keeps_results_together() {
        let calls = vec![call("a.1", r#"{"x": 1}"#), call("b", "{\"cut")];
        let (system, messages) = written(&[
            ChatMessage::system("be brief"),
            ChatMessage::user("hi"),
            ChatMessage::user("there"),
            ChatMessage::Assistant(Said { content: Some("".into()), tool_calls: calls, ..Said::default() }),
            ChatMessage::tool("a.1", "42"),
            ChatMessage::tool("b", ""),
            ChatMessage::user("and?"),
            ChatMessage::system("in French"),
        ]);
        assert_eq!(system, json!([{"type": "text", "text": "be brief"}, {"type": "text", "text": "in French"}]));
        assert_eq!(
            messages,
            json!([
                {"role": "user", "content": [{"type": "text", "text": "hi"}, {"type": "text", "text": "there"}]},
                {"role": "assistant", "content": [
                    {"type": "tool_use", "id": "a_1", "name": "f", "input": {"x": 1}},
                    {"type": "tool_use", "id": "b", "name": "f", "input": {"arguments": "{\"cut"}}]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "a_1", "content": [{"type": "text", "text": "42"}]},
                    {"type": "tool_result", "tool_use_id": "b", "content": []},
                    {"type": "text", "text": "and?"}]},
            ])
        );
    }

    #[test]
    fn images_and_foreign_blocks_keep_their_members() {
        let parts = json!([
            {"type": "image_url", "image_url": {"url": "https://x/y.png"}, "cache_control": {"type": "ephemeral"}},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}},
            {"type": "document", "source": {"type": "url", "url": "https://x/y.pdf"}},
        ]);
        let parts = parts.as_array().unwrap().iter();
        let parts = parts.map(|part| Part::read(&serde_json::value::to_raw_value(part).unwrap())).collect();
        let (_, messages) = written(&[ChatMessage::user(Content::Parts(parts))]);
        assert_eq!(
            messages[0]["content"],
            json!([
                {"type": "image", "source": {"type": "url", "url": "https://x/y.png"}, "cache_control": {"type": "ephemeral"}},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA"}},
                {"type": "document", "source": {"type": "url", "url": "https://x/y.pdf"}},
            ])
        );
    }

    #[test]
    fn signed_reasoning_goes_back_first_and_only_to_its_own_exit() {
        let marks = |marks: Value| serde_json::from_value(marks).unwrap();
        let said = |exit| Said {
            content: Some("a".into()),
            reasoning: vec![
                Reasoning { text: "hm".into(), marks: marks(json!({"signature": "s"})) },
                Reasoning { text: String::new(), marks: marks(json!({"data": "d"})) },
                Reasoning { text: "of a vendor that signs nothing".into(), marks: Fields::new() },
            ],
            exit,
            ..Said::default()
        };
        let blocks = |exit| written(&[ChatMessage::Assistant(said(exit))]).1[0]["content"].clone();
        assert_eq!(
            blocks(Some(own())),
            json!([
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "redacted_thinking", "data": "d"},
                {"type": "text", "text": "a"},
            ])
        );
        let other = Exit { provider: "q".into(), model: "claude".into() };
        assert_eq!(blocks(Some(other)), json!([{"type": "text", "text": "a"}]));
    }
}
