//! Writes the body of a request. What the caller passed through keeps its bytes; what the gateway decides wins.

use bytes::Bytes;
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::value::RawValue;

use crate::{Fields, ModelRequest};

/// Members that the gateway writes itself.
const OWN: [&str; 4] = ["model", "messages", "stream", "stream_options"];

/// The JSON body that asks `model` for a streamed answer with usage.
pub(crate) fn request_body(request: &ModelRequest, model: &str) -> Result<Bytes, serde_json::Error> {
    serde_json::to_vec(&Body { request, model }).map(Bytes::from)
}

struct Body<'a> {
    request: &'a ModelRequest,
    model: &'a str,
}

impl Serialize for Body<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let fields = &self.request.fields;
        let mut map = to.serialize_map(None)?;
        map.serialize_entry("model", self.model)?;
        map.serialize_entry("messages", &self.request.messages)?;
        map.serialize_entry("stream", &true)?;
        map.serialize_entry("stream_options", &StreamOptions(fields.get("stream_options")))?;
        for (name, value) in fields.iter().filter(|(name, _)| !OWN.contains(name)) {
            map.serialize_entry(name, value)?;
        }
        map.end()
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
    use serde_json::{Map, Value, json};

    use super::*;
    use crate::ChatMessage;

    fn written(fields: &str) -> String {
        let request = ModelRequest {
            chain: "default".into(),
            messages: vec![ChatMessage::User { content: Content::Text("hi".into()) }],
            fields: serde_json::from_str(fields).unwrap(),
        };
        String::from_utf8(request_body(&request, "m-1").unwrap().to_vec()).unwrap()
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
