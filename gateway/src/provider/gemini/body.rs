//! Writes the body of a request.

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::value::RawValue;

use super::message::{Content, Part, conversation};
use crate::provider::OPENAI_ONLY;
use crate::settings::Exit;
use crate::{Fields, ModelRequest, ResponseFormat, Tool, ToolChoice};

/// Members that the gateway writes itself.
const OWN: [&str; 5] = ["model", "messages", "stream", "contents", "generationConfig"];

/// Options of the generation: OpenAI's name and Google's.
const GENERATION: [(&str, &str); 6] = [
    ("temperature", "temperature"),
    ("top_p", "topP"),
    ("top_k", "topK"),
    ("seed", "seed"),
    ("presence_penalty", "presencePenalty"),
    ("frequency_penalty", "frequencyPenalty"),
];

/// The JSON body that asks `exit` for an answer.
pub(in crate::provider) fn request_body(
    request: &ModelRequest,
    exit: &Exit,
    options: &Fields,
) -> Result<Vec<u8>, serde_json::Error> {
    let (system, contents) = conversation(&request.messages, exit);
    serde_json::to_vec(&Body { request, options, generation: generation(request, options)?, system, contents })
}

struct Body<'a> {
    request: &'a ModelRequest,
    options: &'a Fields,
    generation: Fields,
    system: Vec<Part<'a>>,
    contents: Vec<Content<'a>>,
}

impl Serialize for Body<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Self { request, options, generation, system, contents } = self;
        let fields = &request.fields;
        let mut map = to.serialize_map(None)?;
        map.serialize_entry("contents", contents)?;
        let is_free = |name: &str| options.get(name).is_none() && fields.get(name).is_none();
        if !system.is_empty() && is_free("systemInstruction") {
            map.serialize_entry("systemInstruction", &Instruction { parts: system })?;
        }
        if !request.tools.is_empty() && is_free("tools") {
            map.serialize_entry("tools", &tools(&request.tools))?;
        }
        if let Some(choice) = request.tool_choice.as_ref().filter(|_| is_free("toolConfig")) {
            map.serialize_entry("toolConfig", &ToolConfig { function_calling_config: choice_of(choice) })?;
        }
        if !generation.is_empty() {
            map.serialize_entry("generationConfig", generation)?;
        }
        let is_openais =
            |name: &str| OPENAI_ONLY.contains(&name) || GENERATION.iter().any(|(openai, _)| *openai == name);
        for (name, value) in fields.iter() {
            if !OWN.contains(&name) && !is_openais(name) && options.get(name).is_none() {
                map.serialize_entry(name, value)?;
            }
        }
        for (name, value) in options.iter().filter(|(name, value)| !OWN.contains(name) && value.get() != "null") {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

/// `generationConfig`: the request's options, over them what the caller and then the exit say in Google's terms.
fn generation(request: &ModelRequest, options: &Fields) -> Result<Fields, serde_json::Error> {
    let mut config = Fields::new();
    for (openai, google) in GENERATION {
        if let Some(value) = request.fields.get(openai).filter(|value| value.get() != "null") {
            config.set_raw(google, value.to_owned());
        }
    }
    if let Some(tokens) = request.output_tokens_max() {
        config.set("maxOutputTokens", &tokens)?;
    }
    let stops = request.stops();
    if !stops.is_empty() {
        config.set("stopSequences", &stops)?;
    }
    match &request.response_format {
        Some(ResponseFormat::JsonObject) => config.set("responseMimeType", &"application/json")?,
        Some(ResponseFormat::JsonSchema { schema, .. }) => {
            config.set("responseMimeType", &"application/json")?;
            config.set_raw("responseJsonSchema", schema.clone());
        }
        Some(ResponseFormat::Text | ResponseFormat::Other(_)) | None => {}
    }
    for given in [&request.fields, options] {
        let given: Option<Fields> = given.read("generationConfig");
        for (name, value) in given.unwrap_or_default().iter() {
            if value.get() == "null" {
                config.remove(&[name]);
            } else {
                config.set_raw(name, value.to_owned());
            }
        }
    }
    Ok(config)
}

#[derive(Serialize)]
struct Instruction<'a> {
    parts: &'a [Part<'a>],
}

#[derive(Serialize)]
#[serde(untagged)]
enum WireTool<'a> {
    Functions {
        #[serde(rename = "functionDeclarations")]
        functions: Vec<Declaration<'a>>,
    },
    Other(&'a RawValue),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Declaration<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parameters_json_schema: Option<&'a RawValue>,
}

fn tools(tools: &[Tool]) -> Vec<WireTool<'_>> {
    let (mut functions, mut wire) = (Vec::new(), Vec::new());
    for tool in tools {
        match tool {
            Tool::Function(tool) => functions.push(Declaration {
                name: &tool.name,
                description: tool.description.as_deref(),
                parameters_json_schema: tool.parameters.as_deref(),
            }),
            Tool::Other(raw) => wire.push(WireTool::Other(raw)),
        }
    }
    if !functions.is_empty() {
        wire.insert(0, WireTool::Functions { functions });
    }
    wire
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolConfig<'a> {
    function_calling_config: Choice<'a>,
}

#[derive(Serialize)]
#[serde(untagged, rename_all_fields = "camelCase")]
enum Choice<'a> {
    Known {
        mode: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        allowed_function_names: Option<[&'a str; 1]>,
    },
    Other(&'a RawValue),
}

fn choice_of(choice: &ToolChoice) -> Choice<'_> {
    let (mode, name) = match choice {
        ToolChoice::Auto => ("AUTO", None),
        ToolChoice::None => ("NONE", None),
        ToolChoice::Required => ("ANY", None),
        ToolChoice::Function(name) => ("ANY", Some([name.as_str()])),
        ToolChoice::Other(raw) => return Choice::Other(raw),
    };
    Choice::Known { mode, allowed_function_names: name }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::OpenAiRequest;

    fn written(request: &Value, options: &Value) -> Value {
        let read = OpenAiRequest::read(request.to_string().as_bytes()).unwrap();
        let exit = Exit { provider: "p".into(), model: "gemini".into() };
        let options = serde_json::from_str(&options.to_string()).unwrap();
        serde_json::from_slice(&request_body(&read.request, &exit, &options).unwrap()).unwrap()
    }

    #[test]
    fn options_take_the_vendors_places_and_openais_others_are_left_out() {
        let request = json!({"model": "chain", "messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}],
            "max_tokens": 100, "stop": ["a"], "temperature": 1.5, "top_p": 0.5, "seed": 7, "user": "ann", "n": 1, "logprobs": true,
            "tools": [{"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}, "strict": true}},
                {"googleSearch": {}}, {"type": "function", "function": {"name": "g"}}],
            "tool_choice": {"type": "function", "function": {"name": "f"}},
            "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}},
            "safetySettings": [1], "generationConfig": {"topK": 3}});
        assert_eq!(
            written(&request, &json!({"generationConfig": {"thinkingConfig": {"thinkingLevel": "low"}, "seed": null}})),
            json!({"contents": [{"role": "user", "parts": [{"text": "hi"}]}],
                "systemInstruction": {"parts": [{"text": "be brief"}]},
                "tools": [
                    {"functionDeclarations": [{"name": "f", "description": "d", "parametersJsonSchema": {"type": "object"}}, {"name": "g"}]},
                    {"googleSearch": {}}],
                "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["f"]}},
                "generationConfig": {"temperature": 1.5, "topP": 0.5, "maxOutputTokens": 100, "stopSequences": ["a"],
                    "responseMimeType": "application/json", "responseJsonSchema": {"type": "object"}, "topK": 3,
                    "thinkingConfig": {"thinkingLevel": "low"}},
                "safetySettings": [1]})
        );
    }

    #[test]
    fn choices_among_tools_have_their_own_words() {
        for (choice, mode) in [("auto", "AUTO"), ("none", "NONE"), ("required", "ANY")] {
            let request = json!({"model": "c", "messages": [], "tool_choice": choice});
            let config = json!({"functionCallingConfig": {"mode": mode}});
            assert_eq!(written(&request, &json!({}))["toolConfig"], config);
        }
    }
}
