//! Writes the body of a request. What the caller passed through keeps its bytes; what the gateway decides wins.

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::value::RawValue;

use super::message::Messages;
use crate::settings::Exit;
use crate::{Fields, ModelRequest, ResponseFormat, Tool, ToolChoice};

/// Members that the gateway writes itself.
const OWN: [&str; 4] = ["model", "messages", "stream", "stream_options"];

/// The JSON body that asks `exit` for a streamed answer with usage.
pub(crate) fn request_body(
    request: &ModelRequest,
    exit: &Exit,
    options: &Fields,
) -> Result<Vec<u8>, serde_json::Error> {
    serde_json::to_vec(&Body { request, exit, options })
}

struct Body<'a> {
    request: &'a ModelRequest,
    exit: &'a Exit,
    options: &'a Fields,
}

impl Serialize for Body<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Self { request, exit, options } = self;
        let fields = &request.fields;
        let mut map = to.serialize_map(None)?;
        map.serialize_entry("model", &exit.model)?;
        map.serialize_entry("messages", &Messages { messages: &request.messages, exit })?;
        map.serialize_entry("stream", &true)?;
        map.serialize_entry("stream_options", &StreamOptions(fields.get("stream_options")))?;
        let is_free = |name: &str| options.get(name).is_none();
        if !request.tools.is_empty() && is_free("tools") {
            map.serialize_entry("tools", &request.tools)?;
        }
        if let Some(choice) = request.tool_choice.as_ref().filter(|_| is_free("tool_choice")) {
            map.serialize_entry("tool_choice", choice)?;
        }
        if let Some(format) = request.response_format.as_ref().filter(|_| is_free("response_format")) {
            map.serialize_entry("response_format", format)?;
        }
        for (name, value) in fields.iter().filter(|(name, _)| !OWN.contains(name) && is_free(name)) {
            map.serialize_entry(name, value)?;
        }
        for (name, value) in options.iter().filter(|(name, value)| !OWN.contains(name) && value.get() != "null") {
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

impl Serialize for Tool {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let tool = match self {
            Self::Function(tool) => tool,
            Self::Other(raw) => return raw.serialize(to),
        };
        let mut map = to.serialize_map(None)?;
        map.serialize_entry("type", "function")?;
        map.serialize_entry("function", &Function { tool })?;
        for (name, value) in tool.outer_fields.iter() {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

struct Function<'a> {
    tool: &'a crate::FunctionTool,
}

impl Serialize for Function<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        map.serialize_entry("name", &self.tool.name)?;
        if let Some(description) = &self.tool.description {
            map.serialize_entry("description", description)?;
        }
        if let Some(parameters) = &self.tool.parameters {
            map.serialize_entry("parameters", parameters)?;
        }
        for (name, value) in self.tool.fields.iter() {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl Serialize for ToolChoice {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Auto => to.serialize_str("auto"),
            Self::None => to.serialize_str("none"),
            Self::Required => to.serialize_str("required"),
            Self::Function(name) => serde_json::json!({"type": "function", "function": {"name": name}}).serialize(to),
            Self::Other(raw) => raw.serialize(to),
        }
    }
}

impl Serialize for ResponseFormat {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let (name, schema, fields) = match self {
            Self::Text => return serde_json::json!({"type": "text"}).serialize(to),
            Self::JsonObject => return serde_json::json!({"type": "json_object"}).serialize(to),
            Self::Other(raw) => return raw.serialize(to),
            Self::JsonSchema { name, schema, fields } => (name, schema, fields),
        };
        let mut inner = Fields::new();
        let raw = |cause| serde::ser::Error::custom(cause);
        inner.set("name", name).map_err(raw)?;
        inner.set_raw("schema", schema.clone());
        for (name, value) in fields.iter() {
            inner.set_raw(name, value.to_owned());
        }
        let mut map = to.serialize_map(Some(2))?;
        map.serialize_entry("type", "json_schema")?;
        map.serialize_entry("json_schema", &inner)?;
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, Value, json};

    use super::*;
    use crate::{ChatMessage, FunctionTool};

    fn exit() -> Exit {
        Exit { provider: "p".into(), model: "m-1".into() }
    }

    fn body(request: &ModelRequest, options: &str) -> String {
        let options = serde_json::from_str(options).unwrap();
        String::from_utf8(request_body(request, &exit(), &options).unwrap()).unwrap()
    }

    fn request(fields: &str) -> ModelRequest {
        ModelRequest {
            chain: "default".into(),
            messages: vec![ChatMessage::user("hi")],
            fields: serde_json::from_str(fields).unwrap(),
            ..ModelRequest::default()
        }
    }

    fn written(fields: &str) -> String {
        body(&request(fields), "{}")
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
    fn tools_choice_and_format_are_written_with_their_schemas_untouched() {
        let raw = |json: &str| RawValue::from_string(json.to_owned()).unwrap();
        let request = ModelRequest {
            tools: vec![
                Tool::Function(FunctionTool {
                    name: "f".into(),
                    description: Some("does f".into()),
                    parameters: Some(raw(r#"{"type":"object",  "x":1.10}"#)),
                    fields: serde_json::from_str(r#"{"strict":true}"#).unwrap(),
                    ..FunctionTool::default()
                }),
                Tool::Other(raw(r#"{"type":"web_search"}"#)),
            ],
            tool_choice: Some(ToolChoice::Function("f".into())),
            response_format: Some(ResponseFormat::JsonSchema {
                name: "n".into(),
                schema: raw(r#"{"a":  1}"#),
                fields: Fields::new(),
            }),
            ..request("{}")
        };
        let body = body(&request, "{}");
        for part in [
            r#"{"type":"function","function":{"name":"f","description":"does f","parameters":{"type":"object",  "x":1.10},"strict":true}}"#,
            r#"{"type":"web_search"}"#,
            r#""tool_choice":{"function":{"name":"f"},"type":"function"}"#,
            r#""response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"a":  1}}}"#,
        ] {
            assert!(body.contains(part), "{part} is not in {body}");
        }
    }

    #[test]
    fn an_exits_own_options_win_and_null_takes_a_member_away() {
        let body =
            body(&request(r#"{"temperature":1,"seed":7,"top_p":1}"#), r#"{"temperature":0.5,"seed":null,"model":"x"}"#);
        assert!(body.ends_with(r#""top_p":1,"temperature":0.5}"#), "{body}");
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
