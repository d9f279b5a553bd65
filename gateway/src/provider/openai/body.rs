//! Writes the body of a request. What the caller passed through keeps its bytes; what the gateway decides wins.

use bytes::Bytes;
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::provider::Outgoing;
use crate::{ChatMessage, Fields};

/// Members that the gateway writes itself.
const OWN: [&str; 4] = ["model", "messages", "stream", "stream_options"];

/// The JSON body that asks for a streamed answer with usage.
pub(crate) fn request_body(outgoing: &Outgoing<'_>) -> Result<Bytes, serde_json::Error> {
    serde_json::to_vec(&Body(outgoing)).map(Bytes::from)
}

struct Body<'a>(&'a Outgoing<'a>);

impl Serialize for Body<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let fields = self.0.fields;
        let mut map = to.serialize_map(None)?;
        map.serialize_entry("model", self.0.model)?;
        match self.0.has_cache_markers {
            true => map.serialize_entry("messages", &marked(self.0.messages))?,
            false => map.serialize_entry("messages", self.0.messages)?,
        }
        map.serialize_entry("stream", &true)?;
        map.serialize_entry("stream_options", &StreamOptions(fields.get("stream_options")))?;
        for (name, value) in fields.iter().filter(|(name, _)| !OWN.contains(name)) {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

/// The messages with the end of the instructions and of the last message marked for the vendor's cache, as the servers that
/// cache on request take it from this dialect: on content parts.
fn marked(messages: &[ChatMessage]) -> Vec<Value> {
    let mut wire: Vec<_> = messages.iter().map(|message| json!(message)).collect();
    let is_system = |message: &&mut Value| message["role"] == "system";
    if let Some(message) = wire.iter_mut().rfind(is_system) {
        mark(message);
    }
    if let Some(message) = wire.last_mut().filter(|message| message["role"] != "system") {
        mark(message);
    }
    wire
}

fn mark(message: &mut Value) {
    let content = &mut message["content"];
    if let Value::String(text) = content {
        *content = json!([{"type": "text", "text": text}]);
    }
    if let Some(part) = content.as_array_mut().and_then(|parts| parts.last_mut()) {
        part["cache_control"] = json!({"type": "ephemeral"});
    }
}

/// The caller's own stream options, with usage asked for.
struct StreamOptions<'a>(Option<&'a RawValue>);

impl Serialize for StreamOptions<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let callers: Fields = self.0.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
        let mut map = to.serialize_map(None)?;
        map.serialize_entry("include_usage", &true)?;
        for (name, value) in callers.iter().filter(|(name, _)| *name != "include_usage") {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use penstock_protocol::message::Content;
    use proptest::prelude::*;
    use serde_json::Map;

    use super::*;

    fn written(fields: &str) -> String {
        let outgoing = Outgoing {
            model: "m-1",
            messages: &[ChatMessage::User { content: Content::Text("hi".into()) }],
            fields: &serde_json::from_str(fields).unwrap(),
            has_cache_markers: false,
        };
        String::from_utf8(request_body(&outgoing).unwrap().to_vec()).unwrap()
    }

    #[test]
    fn a_plain_request_asks_for_a_stream_with_usage() {
        assert_eq!(
            written("{}"),
            concat!(
                r#"{"model":"m-1","messages":[{"role":"user","content":"hi"}],"#,
                r#""stream":true,"stream_options":{"include_usage":true}}"#
            )
        );
    }

    #[test]
    fn the_gateways_own_members_win_and_foreign_stream_options_stay() {
        let body = written(r#"{"model":"x","stream":false,"stream_options":{"a_b":[1, 2],"include_usage":false}}"#);
        assert!(body.ends_with(r#""stream":true,"stream_options":{"include_usage":true,"a_b":[1, 2]}}"#), "{body}");
        assert!(!body.contains(r#""x""#), "{body}");
    }

    #[test]
    fn the_prompts_end_is_marked_for_the_cache_where_the_hop_wants_it() {
        let messages = [
            ChatMessage::System { content: "be brief".into() },
            ChatMessage::User { content: Content::Parts(vec![json!({"type": "image_url"}), json!({"type": "text"})]) },
        ];
        assert_eq!(
            json!(marked(&messages)),
            json!([
                {"role": "system", "content": [
                    {"type": "text", "text": "be brief", "cache_control": {"type": "ephemeral"}}]},
                {"role": "user", "content": [
                    {"type": "image_url"}, {"type": "text", "cache_control": {"type": "ephemeral"}}]},
            ])
        );
    }

    /// Any JSON value as text, with spaces and numbers that no parser keeps.
    fn raw_json() -> impl Strategy<Value = String> {
        let leaf = prop_oneof![
            Just("null".to_owned()),
            Just("1.10".to_owned()),
            Just("123456789012345678901234567890".to_owned()),
            any::<String>().prop_map(|text| json!(text).to_string()),
        ];
        leaf.prop_recursive(3, 16, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(|items| format!("[{}]", items.join(" , "))),
                prop::collection::vec((any::<String>(), inner), 0..4).prop_map(|members| {
                    let members: Vec<_> =
                        members.iter().map(|(name, value)| format!("{} : {value}", json!(name))).collect();
                    format!("{{{}}}", members.join(", "))
                }),
            ]
        })
    }

    proptest! {
        #[test]
        fn unknown_members_reach_the_vendor_byte_for_byte(
            members in prop::collection::btree_map("[a-z_]{1,12}[0-9]", raw_json(), 0..6),
        ) {
            let pairs: Vec<_> = members.iter().map(|(name, value)| format!("{}:{value}", json!(name))).collect();
            let body = written(&format!("{{{}}}", pairs.join(",")));
            for pair in &pairs {
                prop_assert!(body.contains(pair.as_str()), "{pair} is not in {body}");
            }
            let read: Map<String, Value> = serde_json::from_str(&body).unwrap();
            prop_assert_eq!(read.len(), 4 + members.len());
        }
    }
}
