//! Reads a request in OpenAI's shape: the way in for callers that speak it.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{
    ChatMessage, Content, Fields, FunctionTool, ModelRequest, Part, Reasoning, ResponseFormat, Said, Tool, ToolCall,
    ToolChoice,
};

/// A chat completion request, read.
#[derive(Clone, Debug)]
pub struct OpenAiRequest {
    /// What is asked; its chain is the request's `model`.
    pub request: ModelRequest,
    /// Whether the answer is to be streamed.
    pub is_stream: bool,
    /// Whether a stream shall tell the usage.
    pub includes_usage: bool,
}

/// A request that is not of the dialect.
#[derive(Debug, thiserror::Error)]
#[error("`{path}`: {problem}")]
pub struct InvalidRequest {
    /// Where, as `messages[2].content`.
    pub path: String,
    /// What is wrong there.
    pub problem: String,
}

impl OpenAiRequest {
    /// Reads a request body. Members that are not known stay in the request's fields, byte for byte.
    ///
    /// # Errors
    /// When it is no JSON object, or a member that is known is not what it must be.
    pub fn read(body: &[u8]) -> Result<Self, InvalidRequest> {
        let mut fields: Fields = serde_json::from_slice(body).map_err(|cause| invalid("", &cause.to_string()))?;
        let chain = required(&mut fields, "model", "")?;
        let messages: Vec<Box<RawValue>> = required(&mut fields, "messages", "")?;
        let messages = messages.iter().enumerate();
        let messages = messages.map(|(index, raw)| read_message(raw, &format!("messages[{index}]")));
        let tools: Option<Vec<Box<RawValue>>> = optional(&mut fields, "tools", "")?;
        let is_stream = optional(&mut fields, "stream", "")?.unwrap_or(false);
        let includes_usage =
            fields.read("stream_options").is_some_and(|options: WireStreamOptions| options.include_usage);
        let request = ModelRequest {
            chain,
            messages: messages.collect::<Result<_, _>>()?,
            tools: tools.into_iter().flatten().map(read_tool).collect(),
            tool_choice: fields.take("tool_choice").map(read_choice),
            response_format: fields.take("response_format").map(read_format),
            fields,
        };
        Ok(Self { request, is_stream, includes_usage })
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireStreamOptions {
    include_usage: bool,
}

fn invalid(path: &str, problem: &str) -> InvalidRequest {
    InvalidRequest { path: path.to_owned(), problem: problem.to_owned() }
}

fn optional<T: for<'a> Deserialize<'a>>(
    fields: &mut Fields,
    name: &str,
    path: &str,
) -> Result<Option<T>, InvalidRequest> {
    let Some(raw) = fields.take(name) else { return Ok(None) };
    let dot = if path.is_empty() { "" } else { "." };
    serde_json::from_str(raw.get())
        .map(Some)
        .map_err(|cause| invalid(&format!("{path}{dot}{name}"), &cause.to_string()))
}

fn required<T: for<'a> Deserialize<'a>>(fields: &mut Fields, name: &str, path: &str) -> Result<T, InvalidRequest> {
    let dot = if path.is_empty() { "" } else { "." };
    optional(fields, name, path)?.ok_or_else(|| invalid(&format!("{path}{dot}{name}"), "is missing"))
}

fn read_message(raw: &RawValue, path: &str) -> Result<ChatMessage, InvalidRequest> {
    let mut fields: Fields = serde_json::from_str(raw.get()).map_err(|cause| invalid(path, &cause.to_string()))?;
    let role: String = required(&mut fields, "role", path)?;
    let content = fields.take("content").map(|raw| read_content(&raw, path)).transpose()?;
    let must = |content: Option<Content>| content.ok_or_else(|| invalid(&format!("{path}.content"), "is missing"));
    Ok(match role.as_str() {
        "system" | "developer" => ChatMessage::System { content: must(content)?, fields },
        "user" => ChatMessage::User { content: must(content)?, fields },
        "tool" => {
            let tool_call_id = required(&mut fields, "tool_call_id", path)?;
            ChatMessage::Tool { content: must(content)?, tool_call_id, fields }
        }
        "assistant" => {
            let calls: Option<Vec<WireCall>> = optional(&mut fields, "tool_calls", path)?;
            let text: Option<String> = optional(&mut fields, "reasoning_content", path)?;
            let reasoning = text.map(|text| Reasoning { text, marks: Fields::new() });
            ChatMessage::Assistant(Said {
                content,
                reasoning: reasoning.into_iter().collect(),
                tool_calls: calls.into_iter().flatten().filter_map(WireCall::read).collect(),
                exit: None,
                fields,
            })
        }
        other => return Err(invalid(&format!("{path}.role"), &format!("`{other}` is no role"))),
    })
}

fn read_content(raw: &RawValue, path: &str) -> Result<Content, InvalidRequest> {
    if let Ok(text) = serde_json::from_str(raw.get()) {
        return Ok(Content::Text(text));
    }
    match serde_json::from_str::<Vec<Box<RawValue>>>(raw.get()) {
        Ok(parts) => Ok(Content::Parts(parts.iter().map(|part| Part::read(part)).collect())),
        Err(_) => Err(invalid(&format!("{path}.content"), "is neither text nor a list of parts")),
    }
}

/// A tool call with everything beside it.
#[derive(Deserialize)]
struct WireCall(Fields);

impl WireCall {
    /// `None`: no call of a function.
    fn read(self) -> Option<ToolCall> {
        #[derive(Deserialize)]
        struct Function<'a> {
            name: String,
            #[serde(borrow, default)]
            arguments: Option<Cow<'a, str>>,
        }

        let Self(mut marks) = self;
        let id = marks.read("id")?;
        let function: Function<'_> = marks.read("function")?;
        let (name, arguments) = (function.name, function.arguments.unwrap_or_default().into_owned());
        marks.remove(&["id", "type", "function", "index"]);
        Some(ToolCall { id, name, arguments, marks })
    }
}

fn read_tool(raw: Box<RawValue>) -> Tool {
    let read = || -> Option<FunctionTool> {
        let mut outer_fields: Fields = serde_json::from_str(raw.get()).ok()?;
        let mut fields: Fields = outer_fields.read("function")?;
        outer_fields.remove(&["type", "function"]);
        let (name, description) = (fields.read("name")?, fields.read("description"));
        let parameters = fields.take("parameters");
        fields.remove(&["name", "description"]);
        Some(FunctionTool { name, description, parameters, fields, outer_fields })
    };
    read().map_or_else(|| Tool::Other(raw.clone()), Tool::Function)
}

fn read_choice(raw: Box<RawValue>) -> ToolChoice {
    #[derive(Deserialize)]
    struct Choice {
        function: Named,
    }

    #[derive(Deserialize)]
    struct Named {
        name: String,
    }

    match raw.get() {
        "\"auto\"" => ToolChoice::Auto,
        "\"none\"" => ToolChoice::None,
        "\"required\"" => ToolChoice::Required,
        json => match serde_json::from_str::<Choice>(json) {
            Ok(choice) => ToolChoice::Function(choice.function.name),
            Err(_) => ToolChoice::Other(raw),
        },
    }
}

fn read_format(raw: Box<RawValue>) -> ResponseFormat {
    let read = || -> Option<ResponseFormat> {
        let outer: Fields = serde_json::from_str(raw.get()).ok()?;
        match outer.read::<Cow<'_, str>>("type")?.as_ref() {
            "text" => Some(ResponseFormat::Text),
            "json_object" => Some(ResponseFormat::JsonObject),
            "json_schema" => {
                let mut fields: Fields = outer.read("json_schema")?;
                let (name, schema) = (fields.read("name")?, fields.take("schema")?);
                fields.remove(&["name"]);
                Some(ResponseFormat::JsonSchema { name, schema, fields })
            }
            _ => None,
        }
    };
    read().unwrap_or_else(|| ResponseFormat::Other(raw.clone()))
}

#[cfg(test)]
mod tests {
    use super::super::request_body;
    use super::*;
    use crate::settings::Exit;

    /// A request that names everything, in the order in which it is written again.
    const FULL: &str = concat!(
        r#"{"model":"m","messages":["#,
        r#"{"role":"system","content":"be brief"},"#,
        r#"{"role":"user","content":[{"type":"text","text":"hi","cache_control":{"type":"ephemeral"}},"#,
        r#"{"type":"image_url","image_url":{"detail":"low","url":"https://x/y.png"}},{"type":"input_audio","input_audio":{"data":"AA"}}],"name":"ann"},"#,
        r#"{"role":"assistant","content":null,"reasoning_content":"hm","tool_calls":[{"id":"x","type":"function","#,
        r#""function":{"arguments":"{\"a\": 1}","name":"f"},"extra_content":{"google":{"thought_signature":"s"}}}]},"#,
        r#"{"role":"tool","content":"42","tool_call_id":"x"}],"#,
        r#""stream":true,"stream_options":{"include_usage":true,"chunk_include":1},"#,
        r#""tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object"},"strict":true},"cache_control":{"a":1}}],"#,
        r#""tool_choice":{"function":{"name":"f"},"type":"function"},"#,
        r#""response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object"},"strict":true}},"#,
        r#""temperature":0.10,"max_completion_tokens":100,"max_tokens":50,"stop":"END","x_unknown":[1,  2]}"#,
    );

    #[test]
    fn what_is_read_is_written_again_byte_for_byte() {
        let read = OpenAiRequest::read(FULL.as_bytes()).unwrap();
        assert!(read.is_stream && read.includes_usage);
        assert_eq!((read.request.chain.as_str(), read.request.output_tokens_max()), ("m", Some(100)));
        assert_eq!(read.request.stops(), ["END"]);
        let exit = Exit { provider: "p".into(), model: "m".into() };
        let body = request_body(&read.request, &exit, &Fields::new()).unwrap();
        assert_eq!(String::from_utf8(body).unwrap(), FULL);
    }

    #[test]
    fn a_mistake_is_named_by_its_place() {
        for (body, path) in [
            ("[]", ""),
            (r#"{"messages":[]}"#, "model"),
            (r#"{"model":"m","messages":{}}"#, "messages"),
            (r#"{"model":"m","messages":[{"role":"user","content":"a"},{"role":"user"}]}"#, "messages[1].content"),
            (r#"{"model":"m","messages":[{"role":"robot"}]}"#, "messages[0].role"),
            (r#"{"model":"m","messages":[{"role":"user","content":7}]}"#, "messages[0].content"),
            (r#"{"model":"m","messages":[],"stream":"yes"}"#, "stream"),
        ] {
            assert_eq!(OpenAiRequest::read(body.as_bytes()).unwrap_err().path, path, "{body}");
        }
    }
}
