//! What a request needs of a model, and whether a model is known to lack it.

use super::Facts;
use crate::{ChatMessage, Content, ModelRequest, Part, ResponseFormat};

/// What a request needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Need {
    pub(crate) tools: bool,
    pub(crate) vision: bool,
    pub(crate) json_schema: bool,
}

impl Need {
    pub(crate) fn of(request: &ModelRequest) -> Self {
        Self {
            tools: !request.tools.is_empty() || request.fields.get("functions").is_some(),
            vision: request.messages.iter().any(has_image),
            json_schema: matches!(request.response_format, Some(ResponseFormat::JsonSchema { .. })),
        }
    }

    /// What of it a model of these facts is known to lack.
    pub(crate) fn lacking(self, facts: &Facts) -> Option<&'static str> {
        self.first(facts, Some(false))
    }

    /// What of it nobody knows about a model of these facts.
    pub(crate) fn unknown(self, facts: &Facts) -> Option<&'static str> {
        self.first(facts, None)
    }

    fn first(self, facts: &Facts, state: Option<bool>) -> Option<&'static str> {
        [
            (self.tools, facts.tools, "tools"),
            (self.vision, facts.vision, "vision"),
            (self.json_schema, facts.json_schema, "json_schema"),
        ]
        .into_iter()
        .find_map(|(is_needed, fact, name)| (is_needed && fact == state).then_some(name))
    }
}

fn has_image(message: &ChatMessage) -> bool {
    let (ChatMessage::User { content, .. } | ChatMessage::Tool { content, .. }) = message else { return false };
    let Content::Parts(parts) = content else { return false };
    parts.iter().any(|part| matches!(part, Part::Image(_)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OpenAiRequest;

    fn need(json: &str) -> Need {
        Need::of(&OpenAiRequest::read(json.as_bytes()).unwrap().request)
    }

    #[test]
    fn needs_are_read_from_the_request() {
        let plain = r#"{"model":"c","messages":[{"role":"user","content":"hi"}],"tools":[],
            "response_format":{"type":"json_object"}}"#;
        assert_eq!(need(plain), Need::default());
        let all = r#"{"model":"c","messages":[{"role":"user","content":[{"type":"text","text":"hi"},
            {"type":"image_url","image_url":{"url":"https://x/y.png"}}]}],
            "tools":[{"type":"function","function":{"name":"f"}}],
            "response_format":{"type":"json_schema","json_schema":{"name":"s","schema":{}}}}"#;
        assert_eq!(need(all), Need { tools: true, vision: true, json_schema: true });
    }

    #[test]
    fn known_not_and_unknown_are_two_things() {
        let need = Need { tools: true, vision: true, json_schema: false };
        let facts = Facts { tools: Some(true), vision: None, json_schema: Some(false), ..Facts::default() };
        assert_eq!((need.lacking(&facts), need.unknown(&facts)), (None, Some("vision")));
        let facts = Facts { tools: Some(false), ..facts };
        assert_eq!(need.lacking(&facts), Some("tools"));
        assert_eq!(Need::default().lacking(&facts), None, "what is not needed is not asked");
    }
}
