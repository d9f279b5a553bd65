//! Content parts that are no text, by rule: what vendors charge for a usual image, and bytes of anything else.

use serde_json::Value;
use serde_json::value::RawValue;

use super::tokens;
use crate::Part;

/// One image in low detail, and one in any other: most vendors charge 700 to 1 600 for a usual photograph.
const IMAGE_LOW_TOKENS: u64 = 85;
const IMAGE_TOKENS: u64 = 1_100;
/// Bytes of base64 for one token of sound, and of a document.
const AUDIO_BYTES: u64 = 2_000;
const DOCUMENT_BYTES: u64 = 60;
/// A part that only points elsewhere.
const POINTER_TOKENS: u64 = 1_000;
/// Text in a part up to which it is taken for a pointer.
const POINTER_BYTES_MAX: u64 = 2_048;

/// Tokens and images of one part.
pub(super) fn part(part: &Part) -> (u64, u64) {
    match part {
        Part::Text { text, .. } => (tokens(text), 0),
        Part::Image(image) if image.detail.as_deref() == Some("low") => (IMAGE_LOW_TOKENS, 1),
        Part::Image(_) => (IMAGE_TOKENS, 1),
        Part::Other(raw) => other(raw),
    }
}

fn other(raw: &RawValue) -> (u64, u64) {
    let Ok(part) = serde_json::from_str::<Value>(raw.get()) else { return (POINTER_TOKENS, 0) };
    if let Some(text) = part.as_str().or_else(|| part.get("text")?.as_str()) {
        return (tokens(text), 0);
    }
    let kind = part.get("type").and_then(Value::as_str).unwrap_or_default();
    let is = |word: &str| kind.contains(word) || has_media_type(&part, word);
    if is("image") {
        return (IMAGE_TOKENS, 1);
    }
    let bytes_of_token = if is("audio") { AUDIO_BYTES } else { DOCUMENT_BYTES };
    match longest_text(&part) {
        0..=POINTER_BYTES_MAX => (POINTER_TOKENS, 0),
        bytes => (bytes / bytes_of_token + 1, 0),
    }
}

/// Whether the part, or what it holds, names a media type that begins with `word`.
fn has_media_type(part: &Value, word: &str) -> bool {
    const NAMES: [&str; 3] = ["mimeType", "mime_type", "media_type"];
    let named = |value: &Value| {
        NAMES.iter().any(|name| value.get(name).and_then(Value::as_str).is_some_and(|mime| mime.starts_with(word)))
    };
    named(part) || part.as_object().is_some_and(|members| members.values().any(named))
}

/// Bytes of the longest text in the part: the data, where it has any.
fn longest_text(value: &Value) -> u64 {
    match value {
        Value::String(text) => u64::try_from(text.len()).unwrap_or(u64::MAX),
        Value::Array(items) => items.iter().map(longest_text).max().unwrap_or(0),
        Value::Object(members) => members.values().map(longest_text).max().unwrap_or(0),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use serde_json::value::to_raw_value;

    use super::*;
    use crate::{Fields, Image, ImageSource};

    fn passed_through(value: &Value) -> (u64, u64) {
        part(&Part::Other(to_raw_value(value).unwrap()))
    }

    #[test]
    fn images_count_by_their_detail() {
        let image = |detail: Option<&str>| {
            let source = ImageSource::Url("https://x/y.png".into());
            part(&Part::Image(Image { source, detail: detail.map(str::to_owned), fields: Fields::new() }))
        };
        assert_eq!((image(None), image(Some("low"))), ((IMAGE_TOKENS, 1), (IMAGE_LOW_TOKENS, 1)));
        let unknown = json!({"type": "binary", "mimeType": "image/png", "data": "A".repeat(9_000)});
        assert_eq!(passed_through(&unknown), (IMAGE_TOKENS, 1));
    }

    #[test]
    fn sound_and_documents_go_by_their_bytes_and_pointers_by_a_reserve() {
        let data = "A".repeat(600_000);
        let sound = json!({"type": "input_audio", "input_audio": {"data": data, "format": "wav"}});
        assert_eq!(passed_through(&sound).0, 301);
        assert_eq!(passed_through(&json!({"type": "file", "file": {"file_data": data}})).0, 10_001);
        assert_eq!(passed_through(&json!({"type": "file", "file": {"file_id": "f-1"}})), (POINTER_TOKENS, 0));
        assert_eq!(passed_through(&json!({"type": "thing"})), (POINTER_TOKENS, 0));
    }

    #[test]
    fn text_is_text_whatever_it_is_called() {
        for value in [json!("hello world"), json!({"type": "input_text", "text": "hello world"})] {
            assert_eq!(passed_through(&value), (tokens("hello world"), 0));
        }
    }
}
