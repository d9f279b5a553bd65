//! Writes the body of a request.

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::value::RawValue;

use super::message::{Block, Message, conversation};
use crate::provider::OPENAI_ONLY;
use crate::settings::Exit;
use crate::{Fields, ModelRequest, ResponseFormat, Tool, ToolChoice};

/// Output cap of a request that names none. Every model since Claude 3.5 may say this much.
const OUTPUT_TOKENS_DEFAULT: u64 = 8192;
/// Highest temperature here; OpenAI's scale ends at 2.
const TEMPERATURE_MAX: f64 = 1.0;

/// Members that the gateway writes itself.
const OWN: [&str; 3] = ["model", "messages", "stream"];

/// The JSON body that asks `exit` for a streamed answer.
pub(in crate::provider) fn request_body(
    request: &ModelRequest,
    exit: &Exit,
    options: &Fields,
) -> Result<Vec<u8>, serde_json::Error> {
    let (system, messages) = conversation(&request.messages, exit);
    serde_json::to_vec(&Body { request, exit, options, system, messages })
}

struct Body<'a> {
    request: &'a ModelRequest,
    exit: &'a Exit,
    options: &'a Fields,
    system: Vec<Block<'a>>,
    messages: Vec<Message<'a>>,
}

impl Serialize for Body<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Self { request, exit, options, system, messages } = self;
        let fields = &request.fields;
        let mut map = to.serialize_map(None)?;
        map.serialize_entry("model", &exit.model)?;
        map.serialize_entry("messages", messages)?;
        map.serialize_entry("stream", &true)?;
        // What the caller or the exit says in the vendor's own terms stands.
        let is_free =
            |name: &str| options.get(name).is_none() && fields.get(name).is_none_or(|_| OPENAI_ONLY.contains(&name));
        if is_free("max_tokens") {
            map.serialize_entry("max_tokens", &request.output_tokens_max().unwrap_or(OUTPUT_TOKENS_DEFAULT))?;
        }
        if !system.is_empty() && is_free("system") {
            map.serialize_entry("system", system)?;
        }
        if !request.tools.is_empty() && is_free("tools") {
            map.serialize_entry("tools", &request.tools.iter().map(WireTool::of).collect::<Vec<_>>())?;
        }
        if let Some(choice) = self.choice().filter(|_| is_free("tool_choice")) {
            map.serialize_entry("tool_choice", &choice)?;
        }
        if let Some(ResponseFormat::JsonSchema { schema, .. }) =
            request.response_format.as_ref().filter(|_| is_free("output_config"))
        {
            map.serialize_entry("output_config", &OutputConfig { format: JsonSchema { kind: "json_schema", schema } })?;
        }
        let stops = request.stops();
        if !stops.is_empty() && is_free("stop_sequences") {
            map.serialize_entry("stop_sequences", &stops)?;
        }
        let user: Option<String> = fields.read("user").or_else(|| fields.read("safety_identifier"));
        if let Some(user_id) = user.filter(|_| is_free("metadata")) {
            map.serialize_entry("metadata", &Metadata { user_id })?;
        }
        for (name, value) in fields.iter() {
            if OWN.contains(&name) || OPENAI_ONLY.contains(&name) || options.get(name).is_some() {
                continue;
            }
            match fields.read::<f64>(name) {
                Some(number) if name == "temperature" && number > TEMPERATURE_MAX => {
                    map.serialize_entry(name, &TEMPERATURE_MAX)?;
                }
                _ => map.serialize_entry(name, value)?,
            }
        }
        for (name, value) in options.iter().filter(|(name, value)| !OWN.contains(name) && value.get() != "null") {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl Body<'_> {
    fn choice(&self) -> Option<Choice<'_>> {
        let has_one_call = self.request.fields.read::<bool>("parallel_tool_calls") == Some(false);
        let disable_parallel_tool_use = has_one_call.then_some(true);
        let kind = match &self.request.tool_choice {
            Some(ToolChoice::Other(raw)) => return Some(Choice::Other(raw)),
            Some(ToolChoice::None) => {
                return Some(Choice::Known { kind: "none", name: None, disable_parallel_tool_use: None });
            }
            Some(ToolChoice::Function(name)) => {
                return Some(Choice::Known { kind: "tool", name: Some(name), disable_parallel_tool_use });
            }
            Some(ToolChoice::Required) => "any",
            Some(ToolChoice::Auto) => "auto",
            None if has_one_call && !self.request.tools.is_empty() => "auto",
            None => return None,
        };
        Some(Choice::Known { kind, name: None, disable_parallel_tool_use })
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum Choice<'a> {
    Known {
        #[serde(rename = "type")]
        kind: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        name: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        disable_parallel_tool_use: Option<bool>,
    },
    Other(&'a RawValue),
}

#[derive(Serialize)]
#[serde(untagged)]
enum WireTool<'a> {
    Function {
        name: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        description: Option<&'a str>,
        input_schema: InputSchema<'a>,
        #[serde(flatten)]
        fields: &'a Fields,
        #[serde(flatten)]
        outer_fields: &'a Fields,
    },
    Other(&'a RawValue),
}

#[derive(Serialize)]
#[serde(untagged)]
enum InputSchema<'a> {
    Given(&'a RawValue),
    Nothing {
        #[serde(rename = "type")]
        kind: &'static str,
    },
}

impl<'a> WireTool<'a> {
    fn of(tool: &'a Tool) -> Self {
        match tool {
            Tool::Function(tool) => Self::Function {
                name: &tool.name,
                description: tool.description.as_deref(),
                input_schema: match &tool.parameters {
                    Some(schema) => InputSchema::Given(schema),
                    None => InputSchema::Nothing { kind: "object" },
                },
                fields: &tool.fields,
                outer_fields: &tool.outer_fields,
            },
            Tool::Other(raw) => Self::Other(raw),
        }
    }
}

#[derive(Serialize)]
struct OutputConfig<'a> {
    format: JsonSchema<'a>,
}

#[derive(Serialize)]
struct JsonSchema<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    schema: &'a RawValue,
}

#[derive(Serialize)]
struct Metadata {
    user_id: String,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::OpenAiRequest;

    fn written(request: &Value, options: &Value) -> Value {
        let read = OpenAiRequest::read(request.to_string().as_bytes()).unwrap();
        let exit = Exit { provider: "p".into(), model: "claude".into() };
        let options = serde_json::from_str(&options.to_string()).unwrap();
        serde_json::from_slice(&request_body(&read.request, &exit, &options).unwrap()).unwrap()
    }

    #[test]
    fn a_plain_request_has_the_cap_that_the_vendor_requires() {
        let request = json!({"model": "chain", "messages": [{"role": "user", "content": "hi"}]});
        assert_eq!(
            written(&request, &json!({})),
            json!({"model": "claude", "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
                "stream": true, "max_tokens": 8192})
        );
    }

    #[test]
    fn options_take_the_vendors_names_and_openais_others_are_left_out() {
        let request = json!({"model": "chain", "messages": [{"role": "user", "content": "hi"}],
            "max_completion_tokens": 100, "stop": ["a", "b"], "temperature": 1.5, "top_p": 0.5, "user": "ann",
            "frequency_penalty": 1, "n": 1, "logprobs": true, "metadata": {"a": "b"}, "parallel_tool_calls": false,
            "tools": [{"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object", "properties": {}}, "strict": true},
                "cache_control": {"type": "ephemeral"}}, {"type": "function", "function": {"name": "g"}}, {"type": "web_search_20250305", "name": "web_search"}],
            "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}},
            "x_unknown": [1], "stream_options": {"include_usage": true}});
        let mut body = written(&request, &json!({}));
        assert_eq!(body.as_object_mut().unwrap().remove("messages").unwrap().as_array().unwrap().len(), 1);
        assert_eq!(
            body,
            json!({"model": "claude", "stream": true, "max_tokens": 100, "stop_sequences": ["a", "b"], "temperature": 1.0,
                "top_p": 0.5, "metadata": {"user_id": "ann"},
                "tool_choice": {"type": "auto", "disable_parallel_tool_use": true},
                "tools": [
                    {"name": "f", "description": "d", "input_schema": {"type": "object", "properties": {}}, "strict": true, "cache_control": {"type": "ephemeral"}},
                    {"name": "g", "input_schema": {"type": "object"}},
                    {"type": "web_search_20250305", "name": "web_search"}],
                "output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}}, "x_unknown": [1]})
        );
    }

    #[test]
    fn choices_among_tools_have_their_own_words() {
        for (choice, wire) in [
            (json!("auto"), json!({"type": "auto"})),
            (json!("none"), json!({"type": "none"})),
            (json!("required"), json!({"type": "any"})),
            (json!({"type": "function", "function": {"name": "f"}}), json!({"type": "tool", "name": "f"})),
        ] {
            let request = json!({"model": "c", "messages": [], "tool_choice": choice,
                "tools": [{"type": "function", "function": {"name": "f"}}]});
            assert_eq!(written(&request, &json!({}))["tool_choice"], wire);
        }
    }

    #[test]
    fn an_exits_own_options_win() {
        let request = json!({"model": "c", "messages": [], "max_tokens": 100, "temperature": 0.2});
        let options = json!({"max_tokens": 64000, "thinking": {"type": "adaptive"}, "temperature": null, "model": "x"});
        assert_eq!(
            written(&request, &options),
            json!({"model": "claude", "messages": [], "stream": true, "max_tokens": 64000, "thinking": {"type": "adaptive"}})
        );
    }
}
