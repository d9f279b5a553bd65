//! One frame of a stream, and the one body of an answer that came whole: only what is used, typed, unknown is skipped.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::usage::WireUsage;
use crate::Fields;
use crate::tool_call::Piece;

/// `chat.completion.chunk`, or `chat.completion`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Frame<'a> {
    #[serde(borrow)]
    pub(super) choices: Option<Vec<Choice<'a>>>,
    pub(super) usage: Option<WireUsage>,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
    /// vLLM says `"object":"error"` and puts the error's members beside it.
    #[serde(borrow)]
    pub(super) object: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Choice<'a> {
    pub(super) index: Option<u32>,
    #[serde(borrow, alias = "message")]
    pub(super) delta: Option<Delta<'a>>,
    pub(super) finish_reason: Option<String>,
    /// Moonshot sends the usage inside the choice.
    pub(super) usage: Option<WireUsage>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Delta<'a> {
    #[serde(deserialize_with = "text")]
    pub(super) content: Option<String>,
    pub(super) refusal: Option<String>,
    pub(super) reasoning_content: Option<String>,
    /// `OpenRouter` and Groq.
    #[serde(deserialize_with = "text")]
    pub(super) reasoning: Option<String>,
    #[serde(borrow)]
    pub(super) tool_calls: Option<Vec<WireCall<'a>>>,
}

/// A piece of a tool call.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct WireCall<'a> {
    index: Option<u32>,
    id: Option<String>,
    #[serde(borrow)]
    function: Option<WireFunction<'a>>,
    /// Google's thought signature in OpenAI's dialect; it must come back with the call.
    #[serde(borrow)]
    extra_content: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WireFunction<'a> {
    name: Option<String>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

impl<'a> WireCall<'a> {
    pub(crate) fn piece(self) -> Piece<'a> {
        let function = self.function.unwrap_or_default();
        let mut marks = Fields::new();
        if let Some(extra) = self.extra_content.filter(|extra| extra.get() != "null") {
            marks.set_raw("extra_content", extra.to_owned());
        }
        Piece {
            index: self.index,
            id: Cow::Owned(self.id.unwrap_or_default()),
            name: Cow::Owned(function.name.unwrap_or_default()),
            arguments: function.arguments.map_or(Cow::Borrowed(""), |raw| arguments(raw.get())),
            marks,
        }
    }
}

/// A piece of text; an object (some vendors send one) is taken as it stands.
fn arguments(raw: &str) -> Cow<'_, str> {
    match raw {
        "null" => Cow::Borrowed(""),
        _ => serde_json::from_str::<String>(raw).map_or(Cow::Borrowed(raw), Cow::Owned),
    }
}

impl Frame<'_> {
    /// Whether the frame reports an error instead of a piece of the answer.
    pub(super) fn is_error(&self) -> bool {
        self.error.is_some() || self.object.is_some_and(|object| object.get() == r#""error""#)
    }
}

/// Text, or content parts of which the text is taken.
fn text<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    #[derive(Deserialize)]
    struct Part {
        text: Option<String>,
    }

    struct TextOrParts;

    impl<'de> Visitor<'de> for TextOrParts {
        type Value = Option<String>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("text or content parts")
        }

        fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
            Ok(Some(text.to_owned()))
        }

        fn visit_string<E>(self, text: String) -> Result<Self::Value, E> {
            Ok(Some(text))
        }

        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(None)
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Self::Value, A::Error> {
            let mut whole = String::new();
            while let Some(part) = parts.next_element::<Part>()? {
                whole.push_str(part.text.as_deref().unwrap_or_default());
            }
            Ok(Some(whole))
        }
    }

    from.deserialize_any(TextOrParts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(json: &str) -> Option<String> {
        serde_json::from_str::<Delta<'_>>(json).unwrap().content
    }

    #[test]
    fn content_is_text_parts_null_or_missing() {
        assert_eq!(content(r#"{"content":"a\n"}"#).unwrap(), "a\n");
        assert_eq!(content(r#"{"content":[{"type":"text","text":"a"},{"type":"image"}]}"#).unwrap(), "a");
        assert_eq!(content(r#"{"content":null}"#), None);
        assert_eq!(content("{}"), None);
    }

    #[test]
    fn both_shapes_of_an_error_frame_are_known() {
        let is_error = |json: &str| serde_json::from_str::<Frame<'_>>(json).unwrap().is_error();
        assert!(is_error(r#"{"error":{"message":"x"}}"#));
        assert!(is_error(r#"{"object":"error","message":"x"}"#));
        assert!(!is_error(r#"{"object":"chat.completion.chunk","error":null,"choices":[]}"#));
    }
}
