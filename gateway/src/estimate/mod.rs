//! What a call will cost in tokens, from the request as it is: before anything is sent.
//!
//! Text, tool-call arguments, tool schemas and output schemas are counted by [`text`]; images and other parts by [`part`]; the
//! output is the largest cap in the request, else a reserve. It is an estimate: the running correction of each model makes
//! up for its tokenizer, and settlement for the rest.

mod part;
mod text;

use part::part;
pub(crate) use text::tokens;

use crate::bucket::Cost;
use crate::{ChatMessage, Content, ModelRequest, ResponseFormat, Tool};

/// Output of a request that names no cap.
const OUTPUT_RESERVE_TOKENS: u64 = 1_024;
/// Around each message and tool: role or kind, and separators.
const MESSAGE_TOKENS: u64 = 4;
/// Most answers that one request may ask for; `n` multiplies the output.
const ANSWERS_MAX: u64 = 128;

/// The estimate of a request.
pub(crate) fn estimate(request: &ModelRequest) -> Cost {
    let mut cost = Cost::default();
    for message in &request.messages {
        cost.input_tokens += MESSAGE_TOKENS;
        add_message(&mut cost, message);
    }
    for tool in &request.tools {
        cost.input_tokens += MESSAGE_TOKENS + of_tool(tool);
    }
    cost.input_tokens += match &request.response_format {
        None | Some(ResponseFormat::Text | ResponseFormat::JsonObject) => 0,
        Some(ResponseFormat::JsonSchema { schema, .. }) => tokens(schema.get()),
        Some(ResponseFormat::Other(raw)) => tokens(raw.get()),
    };
    let answers = request.fields.read("n").unwrap_or(1).clamp(1, ANSWERS_MAX);
    let cap = request.output_tokens_max().unwrap_or(OUTPUT_RESERVE_TOKENS);
    cost.output_tokens = cap.saturating_mul(answers);
    cost
}

fn of_tool(tool: &Tool) -> u64 {
    match tool {
        Tool::Function(function) => {
            tokens(&function.name)
                + function.description.as_deref().map_or(0, tokens)
                + function.parameters.as_ref().map_or(0, |schema| tokens(schema.get()))
        }
        Tool::Other(raw) => tokens(raw.get()),
    }
}

fn add_message(cost: &mut Cost, message: &ChatMessage) {
    match message {
        ChatMessage::System { content, .. } | ChatMessage::User { content, .. } | ChatMessage::Tool { content, .. } => {
            add_content(cost, content);
        }
        ChatMessage::Assistant(said) => {
            if let Some(content) = &said.content {
                add_content(cost, content);
            }
            for block in &said.reasoning {
                cost.input_tokens += tokens(&block.text);
            }
            for call in &said.tool_calls {
                cost.input_tokens += MESSAGE_TOKENS + tokens(&call.name) + tokens(&call.arguments);
            }
        }
    }
}

fn add_content(cost: &mut Cost, content: &Content) {
    match content {
        Content::Text(text) => cost.input_tokens += tokens(text),
        Content::Parts(parts) => {
            for one in parts {
                let (tokens, images) = part(one);
                cost.input_tokens += tokens;
                cost.images += images;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use serde_json::value::to_raw_value;

    use super::*;
    use crate::{Fields, FunctionTool, Image, ImageSource, Part, Reasoning, Said, ToolCall};

    fn request(messages: Vec<ChatMessage>) -> ModelRequest {
        ModelRequest { chain: "c".into(), messages, ..ModelRequest::default() }
    }

    const TEXT: &str = "The quick brown fox jumps over the lazy dog, and then it rests for a while in the shade.";

    #[test]
    fn every_text_that_the_model_reads_is_counted() {
        let bare = estimate(&request(vec![ChatMessage::user("hi")])).input_tokens;
        let call = ToolCall { id: "x".into(), name: "f".into(), arguments: TEXT.into(), marks: Fields::new() };
        let reasoning = Reasoning { text: TEXT.into(), ..Reasoning::default() };
        for message in [
            ChatMessage::system(TEXT),
            ChatMessage::user(TEXT),
            ChatMessage::user(Content::Parts(vec![Part::text(TEXT)])),
            ChatMessage::assistant(TEXT),
            ChatMessage::Assistant(Said { reasoning: vec![reasoning], ..Said::default() }),
            ChatMessage::Assistant(Said { tool_calls: vec![call], ..Said::default() }),
            ChatMessage::tool("x", TEXT),
        ] {
            let more = estimate(&request(vec![ChatMessage::user("hi"), message.clone()])).input_tokens;
            assert!(more >= bare + tokens(TEXT), "{message:?}");
        }
        let raw = || to_raw_value(&json!({"type": "object", "description": TEXT})).unwrap();
        for tool in [
            Tool::Function(FunctionTool { description: Some(TEXT.into()), ..FunctionTool::default() }),
            Tool::Function(FunctionTool { parameters: Some(raw()), ..FunctionTool::default() }),
            Tool::Other(raw()),
        ] {
            let with = ModelRequest { tools: vec![tool.clone()], ..request(vec![ChatMessage::user("hi")]) };
            assert!(estimate(&with).input_tokens >= bare + tokens(TEXT), "{tool:?}");
        }
        let schema = ResponseFormat::JsonSchema { name: "s".into(), schema: raw(), fields: Fields::new() };
        let with = ModelRequest { response_format: Some(schema), ..request(vec![ChatMessage::user("hi")]) };
        assert!(estimate(&with).input_tokens >= bare + tokens(TEXT));
    }

    #[test]
    fn an_estimate_is_never_near_zero() {
        let empty = estimate(&request(vec![ChatMessage::user("")]));
        assert_eq!((empty.input_tokens, empty.output_tokens), (MESSAGE_TOKENS, OUTPUT_RESERVE_TOKENS));
    }

    #[test]
    fn the_output_is_the_largest_cap_or_a_reserve() {
        let mut capped = request(vec![ChatMessage::user("hi")]);
        assert_eq!(estimate(&capped).output_tokens, 1_024);
        capped.fields.set("max_tokens", &50).unwrap();
        assert_eq!(estimate(&capped).output_tokens, 50);
        capped.fields.set("max_completion_tokens", &4_000).unwrap();
        assert_eq!(estimate(&capped).output_tokens, 4_000);
        capped.fields.set("n", &3).unwrap();
        assert_eq!(estimate(&capped).output_tokens, 12_000);
        capped.fields.set("max_tokens", &u64::MAX).unwrap();
        assert_eq!(estimate(&capped).output_tokens, u64::MAX, "and no overflow");
        capped.fields.set("max_tokens", &"many").unwrap();
        assert_eq!(estimate(&capped).output_tokens, 12_000, "what is no number caps nothing");
    }

    #[test]
    fn an_image_is_not_counted_by_its_bytes() {
        let source = ImageSource::Base64 { media_type: "image/png".into(), data: "A".repeat(1_000_000) };
        let image = Part::Image(Image { source, detail: None, fields: Fields::new() });
        let cost = estimate(&request(vec![ChatMessage::user(Content::Parts(vec![image]))]));
        assert!((500..5_000).contains(&cost.input_tokens), "{cost:?}");
        assert_eq!(cost.images, 1);
    }
}
