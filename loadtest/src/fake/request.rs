//! The parts of a request that the fake provider looks at.

use serde::Deserialize;
use serde_json::value::RawValue;

/// A chat completion request. What is not named here is kept in the recorded body only.
#[derive(Debug, Deserialize)]
pub(super) struct ChatRequest<'a> {
    pub(super) model: String,
    #[serde(borrow)]
    pub(super) messages: Vec<ChatMessage<'a>>,
    #[serde(default)]
    pub(super) stream: Option<bool>,
    #[serde(default)]
    pub(super) stream_options: Option<StreamOptions>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ChatMessage<'a> {
    pub(super) role: String,
    #[serde(borrow, default)]
    pub(super) content: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct StreamOptions {
    pub(super) include_usage: bool,
}

impl ChatRequest<'_> {
    pub(super) fn is_stream(&self) -> bool {
        self.stream == Some(true)
    }

    pub(super) fn wants_usage(&self) -> bool {
        self.stream_options.as_ref().is_some_and(|options| options.include_usage)
    }

    /// Text of the last user message.
    pub(super) fn last_user_text(&self) -> String {
        let last = self.messages.iter().rev().find(|message| message.role == "user");
        last.and_then(|message| message.content).map(text).unwrap_or_default()
    }

    /// Four tokens a message and one for every four bytes of content.
    pub(super) fn prompt_tokens(&self) -> u64 {
        let tokens = |message: &ChatMessage<'_>| {
            4 + message.content.map_or(0, |content| u64::try_from(content.get().len()).unwrap_or(0) / 4)
        };
        self.messages.iter().map(tokens).sum()
    }
}

fn text(content: &RawValue) -> String {
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
