//! Messages as OpenAI's dialect writes them.

use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};
use serde_json::json;

use crate::settings::Exit;
use crate::{ChatMessage, Content, Fields, Part, Said, ToolCall};

/// The conversation for `exit`.
pub(super) struct Messages<'a> {
    pub(super) messages: &'a [ChatMessage],
    pub(super) exit: &'a Exit,
}

impl Serialize for Messages<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.messages.iter().map(|message| Wire { message, exit: self.exit }))
    }
}

struct Wire<'a> {
    message: &'a ChatMessage,
    exit: &'a Exit,
}

impl Serialize for Wire<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        let fields = match self.message {
            ChatMessage::System { content, fields } => {
                map.serialize_entry("role", "system")?;
                map.serialize_entry("content", content)?;
                fields
            }
            ChatMessage::User { content, fields } => {
                map.serialize_entry("role", "user")?;
                map.serialize_entry("content", content)?;
                fields
            }
            ChatMessage::Tool { content, tool_call_id, fields } => {
                map.serialize_entry("role", "tool")?;
                map.serialize_entry("content", content)?;
                map.serialize_entry("tool_call_id", tool_call_id)?;
                fields
            }
            ChatMessage::Assistant(said) => {
                assistant(said, self.exit, &mut map)?;
                &said.fields
            }
        };
        for (name, value) in fields.iter() {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

fn assistant<M: SerializeMap>(said: &Said, exit: &Exit, map: &mut M) -> Result<(), M::Error> {
    map.serialize_entry("role", "assistant")?;
    match &said.content {
        Some(content) => map.serialize_entry("content", content)?,
        // Some servers insist on the member where tools were called.
        None if !said.tool_calls.is_empty() => map.serialize_entry("content", &())?,
        None => {}
    }
    let is_its_own = said.is_of(exit);
    if is_its_own {
        let reasoning: String = said.reasoning.iter().map(|block| block.text.as_str()).collect();
        if !reasoning.is_empty() {
            map.serialize_entry("reasoning_content", &reasoning)?;
        }
    }
    if !said.tool_calls.is_empty() {
        map.serialize_entry("tool_calls", &Calls { calls: &said.tool_calls, is_its_own })?;
    }
    Ok(())
}

struct Calls<'a> {
    calls: &'a [ToolCall],
    is_its_own: bool,
}

impl Serialize for Calls<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.calls.iter().map(|call| Call { call, is_its_own: self.is_its_own }))
    }
}

struct Call<'a> {
    call: &'a ToolCall,
    is_its_own: bool,
}

impl Serialize for Call<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Self { call, is_its_own } = self;
        let mut map = to.serialize_map(None)?;
        map.serialize_entry("id", &call.id)?;
        map.serialize_entry("type", "function")?;
        map.serialize_entry("function", &json!({"name": call.name, "arguments": call.arguments}))?;
        for (name, value) in call.marks.iter().filter(|_| *is_its_own) {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl Serialize for Content {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => to.serialize_str(text),
            Self::Parts(parts) => {
                let mut list = to.serialize_seq(Some(parts.len()))?;
                for part in parts {
                    list.serialize_element(part)?;
                }
                list.end()
            }
        }
    }
}

impl Serialize for Part {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = match self {
            Self::Other(raw) => return raw.serialize(to),
            _ => to.serialize_map(None)?,
        };
        let none = Fields::new();
        let fields = match self {
            Self::Text { text, fields } => {
                map.serialize_entry("type", "text")?;
                map.serialize_entry("text", text)?;
                fields
            }
            Self::Image(image) => {
                let mut url = json!({"url": image.source.to_url()});
                if let Some(detail) = &image.detail {
                    url["detail"] = json!(detail);
                }
                map.serialize_entry("type", "image_url")?;
                map.serialize_entry("image_url", &url)?;
                &image.fields
            }
            Self::Other(_) => &none,
        };
        for (name, value) in fields.iter() {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::{Image, ImageSource, Reasoning};

    fn written(messages: &[ChatMessage]) -> Value {
        let exit = Exit { provider: "p".into(), model: "m".into() };
        serde_json::to_value(Messages { messages, exit: &exit }).unwrap()
    }

    fn said(exit: Option<Exit>) -> ChatMessage {
        let mark = |name: &str| serde_json::from_value(json!({name: "s"})).unwrap();
        ChatMessage::Assistant(Said {
            content: None,
            reasoning: vec![Reasoning { text: "hm".into(), marks: mark("signature") }],
            tool_calls: vec![ToolCall {
                id: "x".into(),
                name: "f".into(),
                arguments: "{}".into(),
                marks: mark("extra_content"),
            }],
            exit,
            fields: serde_json::from_value(json!({"prefix": true})).unwrap(),
        })
    }

    #[test]
    fn every_message_has_its_wire_form() {
        let image = Part::Image(Image {
            source: ImageSource::Base64 { media_type: "image/png".into(), data: "AA".into() },
            detail: Some("low".into()),
            fields: Fields::new(),
        });
        assert_eq!(
            written(&[
                ChatMessage::system("be brief"),
                ChatMessage::user(Content::Parts(vec![Part::text("what is it?"), image])),
                ChatMessage::assistant("a cat"),
                ChatMessage::tool("x", "42"),
            ]),
            json!([
                {"role": "system", "content": "be brief"},
                {"role": "user", "content": [
                    {"type": "text", "text": "what is it?"},
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA", "detail": "low"}}]},
                {"role": "assistant", "content": "a cat"},
                {"role": "tool", "content": "42", "tool_call_id": "x"},
            ])
        );
    }

    #[test]
    fn reasoning_and_marks_go_back_to_who_made_them_and_to_no_other() {
        let own = Exit { provider: "p".into(), model: "m".into() };
        let other = Exit { provider: "p".into(), model: "n".into() };
        let call = json!({"id": "x", "type": "function", "function": {"name": "f", "arguments": "{}"}});
        let mut marked = call.clone();
        marked["extra_content"] = json!("s");
        for exit in [None, Some(own)] {
            assert_eq!(
                written(&[said(exit)]),
                json!([{"role": "assistant", "content": null, "reasoning_content": "hm", "tool_calls": [marked], "prefix": true}])
            );
        }
        assert_eq!(
            written(&[said(Some(other))]),
            json!([{"role": "assistant", "content": null, "tool_calls": [call], "prefix": true}])
        );
    }
}
