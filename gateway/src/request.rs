//! What a caller asks of a model, before an exit is chosen.

use serde_json::value::RawValue;

use crate::{ChatMessage, Content, Fields, Part, ResponseFormat, Tool, ToolChoice};

/// One model call.
///
/// Structured parts are typed, so that each dialect can write them its own way. Everything else stays in `fields` under
/// OpenAI's names: an exit of that dialect gets the same bytes; another takes what it has a place for (`temperature`, `stop`,
/// output caps) and what nobody knows, and leaves OpenAI's remaining options out.
#[derive(Clone, Debug, Default)]
pub struct ModelRequest {
    /// Name of the chain that serves it.
    pub chain: String,
    /// The conversation, oldest first.
    pub messages: Vec<ChatMessage>,
    /// Tools that the model may call.
    pub tools: Vec<Tool>,
    /// Which of them it must call.
    pub tool_choice: Option<ToolChoice>,
    /// Format of the answer.
    pub response_format: Option<ResponseFormat>,
    /// Every other member of the request (`temperature`, what no version of Penstock knows), sent unchanged.
    pub fields: Fields,
}

impl ModelRequest {
    /// The largest output cap of the request in tokens.
    #[must_use]
    pub fn output_tokens_max(&self) -> Option<u64> {
        ["max_completion_tokens", "max_tokens", "max_output_tokens"]
            .into_iter()
            .filter_map(|name| self.fields.read(name))
            .max()
    }

    /// The request with the end of the instructions and of the last message marked for the vendor's cache, for vendors that
    /// cache on request.
    pub(crate) fn with_cache_markers(&self) -> Self {
        let mut marked = self.clone();
        let is_system = |message: &&mut ChatMessage| matches!(message, ChatMessage::System { .. });
        if let Some(message) = marked.messages.iter_mut().rfind(is_system) {
            mark(message);
        }
        if let Some(message) = marked.messages.last_mut().filter(|message| !is_system(message)) {
            mark(message);
        }
        marked
    }

    /// Texts at which the model stops.
    #[must_use]
    pub fn stops(&self) -> Vec<String> {
        self.fields.read("stop").or_else(|| self.fields.read("stop").map(|one: String| vec![one])).unwrap_or_default()
    }
}

/// Marks the last part of a message's content.
fn mark(message: &mut ChatMessage) {
    let content = match message {
        ChatMessage::System { content, .. } | ChatMessage::User { content, .. } | ChatMessage::Tool { content, .. } => {
            content
        }
        ChatMessage::Assistant(said) => match &mut said.content {
            Some(content) => content,
            None => return,
        },
    };
    if let Content::Text(text) = content {
        *content = Content::Parts(vec![Part::text(std::mem::take(text))]);
    }
    let Content::Parts(parts) = content else { return };
    let fields = parts.last_mut().and_then(|part| match part {
        Part::Text { fields, .. } => Some(fields),
        Part::Image(image) => Some(&mut image.fields),
        Part::Other(_) => None,
    });
    if let (Some(fields), Ok(marker)) = (fields, RawValue::from_string(r#"{"type":"ephemeral"}"#.to_owned())) {
        fields.set_raw("cache_control", marker);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Image, ImageSource};

    #[test]
    fn the_prompts_end_is_marked_for_the_cache() {
        let image = Part::Image(Image { source: ImageSource::Url("u".into()), detail: None, fields: Fields::new() });
        let request = ModelRequest {
            messages: vec![
                ChatMessage::system("be brief"),
                ChatMessage::user(Content::Parts(vec![Part::text("a"), image])),
            ],
            ..ModelRequest::default()
        };
        let marker: Fields = serde_json::from_str(r#"{"cache_control":{"type":"ephemeral"}}"#).unwrap();
        let marked = request.with_cache_markers();
        let system = Content::Parts(vec![Part::Text { text: "be brief".into(), fields: marker.clone() }]);
        assert_eq!(marked.messages[0], ChatMessage::system(system));
        let image = Part::Image(Image { source: ImageSource::Url("u".into()), detail: None, fields: marker });
        assert_eq!(marked.messages[1], ChatMessage::user(Content::Parts(vec![Part::text("a"), image])));
    }
}
