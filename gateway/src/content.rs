//! What a message says: text, images, and parts that only some vendors know.

use std::borrow::Cow;

use penstock_protocol::message::Content as AguiContent;
use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};

use crate::Fields;

/// The content of a message. Plain text stays plain on the wire: some servers take nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Text.
    Text(String),
    /// Parts in order.
    Parts(Vec<Part>),
}

/// One part of a content.
#[derive(Clone, Debug)]
pub enum Part {
    /// Text.
    Text {
        /// The text.
        text: String,
        /// Members that pass through (`cache_control`).
        fields: Fields,
    },
    /// An image.
    Image(Image),
    /// A part that is passed through as it stands: audio, files, what no version of Penstock knows.
    Other(Box<RawValue>),
}

/// An image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Where it is.
    pub source: ImageSource,
    /// `detail` of OpenAI: `low`, `high`, `auto`.
    pub detail: Option<String>,
    /// Members that pass through (`cache_control`).
    pub fields: Fields,
}

/// Where an image is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageSource {
    /// At a URL that the vendor fetches.
    Url(String),
    /// In the request.
    Base64 {
        /// `image/png` and the like.
        media_type: String,
        /// The bytes in base64.
        data: String,
    },
}

impl Content {
    /// The text of the content; of parts, the text parts joined.
    #[must_use]
    pub fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Text(text) => Cow::Borrowed(text),
            Self::Parts(parts) => {
                let texts = parts.iter().filter_map(|part| match part {
                    Part::Text { text, .. } => Some(text.as_str()),
                    _ => None,
                });
                Cow::Owned(texts.collect::<Vec<_>>().join("\n"))
            }
        }
    }

    /// Whether nothing is said.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Text(text) => text.is_empty(),
            Self::Parts(parts) => parts.is_empty(),
        }
    }
}

impl From<String> for Content {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for Content {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

/// Parts of AG-UI, and parts of OpenAI that an application passed through AG-UI.
impl From<&AguiContent> for Content {
    fn from(content: &AguiContent) -> Self {
        match content {
            AguiContent::Text(text) => Self::Text(text.clone()),
            AguiContent::Parts(parts) => {
                Self::Parts(parts.iter().filter_map(|part| Some(Part::read(&to_raw_value(part).ok()?))).collect())
            }
        }
    }
}

/// Equal by meaning; parts that pass through, by their bytes.
impl PartialEq for Part {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Text { text: a, fields: x }, Self::Text { text: b, fields: y }) => a == b && x == y,
            (Self::Image(a), Self::Image(b)) => a == b,
            (Self::Other(a), Self::Other(b)) => a.get() == b.get(),
            _ => false,
        }
    }
}

impl Eq for Part {}

impl Part {
    /// Plain text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into(), fields: Fields::new() }
    }

    /// Reads a part in OpenAI's shape or in AG-UI's. What is neither text nor an image is passed through.
    #[must_use]
    pub fn read(json: &RawValue) -> Self {
        Self::known(json.get()).unwrap_or_else(|| Self::Other(json.to_owned()))
    }

    fn known(json: &str) -> Option<Self> {
        let mut fields: Fields = serde_json::from_str(json).ok()?;
        match fields.read::<Cow<'_, str>>("type")?.as_ref() {
            "text" => {
                let text = fields.read("text")?;
                fields.remove(&["type", "text"]);
                Some(Self::Text { text, fields })
            }
            "image_url" => {
                let image: ImageUrl = fields.read("image_url")?;
                fields.remove(&["type", "image_url"]);
                Some(Self::Image(Image { source: ImageSource::of_url(image.url), detail: image.detail, fields }))
            }
            "image" => {
                let source = match fields.read("source")? {
                    AguiSource::Data { value, mime_type } => ImageSource::Base64 { media_type: mime_type, data: value },
                    AguiSource::Url { value } => ImageSource::of_url(value),
                };
                // An AG-UI part has an id and metadata of its own, which are the application's.
                Some(Self::Image(Image { source, detail: None, fields: Fields::new() }))
            }
            _ => None,
        }
    }
}

impl ImageSource {
    /// A URL; a `data:` URL in base64 is taken apart.
    #[must_use]
    pub fn of_url(url: String) -> Self {
        let inline = url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
        match inline {
            Some((media_type, data)) => Self::Base64 { media_type: media_type.to_owned(), data: data.to_owned() },
            None => Self::Url(url),
        }
    }

    /// The URL, or a `data:` URL of the bytes.
    #[must_use]
    pub fn to_url(&self) -> Cow<'_, str> {
        match self {
            Self::Url(url) => Cow::Borrowed(url),
            Self::Base64 { media_type, data } => Cow::Owned(format!("data:{media_type};base64,{data}")),
        }
    }
}

#[derive(Deserialize)]
struct ImageUrl {
    url: String,
    #[serde(default)]
    detail: Option<String>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum AguiSource {
    Data {
        value: String,
        #[serde(rename = "mimeType")]
        mime_type: String,
    },
    Url {
        value: String,
    },
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(part: &serde_json::Value) -> Part {
        Part::read(&to_raw_value(part).unwrap())
    }

    #[test]
    fn images_of_every_shape_are_one() {
        let bytes = ImageSource::Base64 { media_type: "image/png".into(), data: "AAAA".into() };
        let image =
            |source: &ImageSource| Part::Image(Image { source: source.clone(), detail: None, fields: Fields::new() });
        let openai = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}});
        let agui = json!({"type": "image", "source": {"type": "data", "value": "AAAA", "mimeType": "image/png"}});
        assert_eq!(read(&openai), image(&bytes));
        assert_eq!(read(&agui), image(&bytes));
        assert_eq!(bytes.to_url(), "data:image/png;base64,AAAA");
        let url = ImageSource::Url("https://x/y.png".into());
        assert_eq!(read(&json!({"type": "image", "source": {"type": "url", "value": "https://x/y.png"}})), image(&url));
    }

    #[test]
    fn unknown_members_and_unknown_parts_stay() {
        let text = read(&json!({"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}));
        let Part::Text { fields, .. } = &text else { panic!("{text:?}") };
        assert_eq!(fields.get("cache_control").unwrap().get(), r#"{"type":"ephemeral"}"#);
        let audio = json!({"type": "input_audio", "input_audio": {"data": "…", "format": "wav"}});
        let Part::Other(raw) = read(&audio) else { panic!("audio is passed through") };
        assert_eq!(raw.get(), audio.to_string());
    }
}
