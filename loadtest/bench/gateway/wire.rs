//! Answers in OpenAI's words: chunks of a stream, or one completion.

use penstock_gateway::{FinishReason, GatewayError, ModelChunk, Outcome, Said};
use penstock_protocol::TokenUsage;
use serde_json::{Value, json};

/// Writes the events of one stream.
pub(crate) struct Writer {
    head: String,
    includes_usage: bool,
    has_begun: bool,
    usage: Option<TokenUsage>,
}

impl Writer {
    pub(crate) fn new(id: &str, model: &str, includes_usage: bool) -> Self {
        let head = format!(
            r#"data: {{"id":"chatcmpl-{id}","object":"chat.completion.chunk","created":0,"model":{},"choices":["#,
            Value::from(model)
        );
        Self { head, includes_usage, has_begun: false, usage: None }
    }

    /// Appends the events of a chunk. The last chunk brings `[DONE]`.
    pub(crate) fn write(&mut self, chunk: ModelChunk, out: &mut String) {
        match chunk {
            ModelChunk::Text(text) => self.delta(&format!(r#""content":{}"#, Value::from(text)), None, out),
            ModelChunk::Reasoning(text) => {
                self.delta(&format!(r#""reasoning_content":{}"#, Value::from(text)), None, out);
            }
            ModelChunk::ToolCallStart { index, id, name } => {
                let call =
                    json!({"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": ""}});
                self.delta(&format!(r#""tool_calls":[{call}]"#), None, out);
            }
            ModelChunk::ToolCallArguments { index, delta } => {
                let call = json!({"index": index, "function": {"arguments": delta}});
                self.delta(&format!(r#""tool_calls":[{call}]"#), None, out);
            }
            ModelChunk::ReasoningBlock(_) | ModelChunk::ToolCall(_) => {}
            ModelChunk::Usage(usage) => self.usage = Some(usage),
            ModelChunk::Finish { reason } => {
                self.delta("", Some(&reason), out);
                if let Some(usage) = self.usage.take().filter(|_| self.includes_usage) {
                    let usage = wire_usage(&usage);
                    out.push_str(&self.head);
                    out.push_str(&format!("],\"usage\":{usage}}}\n\n"));
                }
                out.push_str("data: [DONE]\n\n");
            }
        }
    }

    fn delta(&mut self, members: &str, finish: Option<&FinishReason>, out: &mut String) {
        let role = if std::mem::replace(&mut self.has_begun, true) { "" } else { r#""role":"assistant""# };
        let comma = if role.is_empty() || members.is_empty() { "" } else { "," };
        out.push_str(&self.head);
        out.push_str(r#"{"index":0,"delta":{"#);
        out.push_str(role);
        out.push_str(comma);
        out.push_str(members);
        match finish {
            None => out.push_str("},\"finish_reason\":null}]}\n\n"),
            Some(reason) => out.push_str(&format!("}},\"finish_reason\":{}}}]}}\n\n", Value::from(reason.as_str()))),
        }
    }
}

/// One completion.
pub(crate) fn completion(
    id: &str,
    model: &str,
    said: &Said,
    usage: Option<&TokenUsage>,
    reason: &FinishReason,
) -> Value {
    let mut message =
        json!({"role": "assistant", "content": said.content.as_ref().map(penstock_gateway::Content::text)});
    if !said.reasoning.is_empty() {
        let text = said.reasoning.iter().map(|block| block.text.as_str()).collect::<String>();
        message["reasoning_content"] = text.into();
    }
    if !said.tool_calls.is_empty() {
        let call = |call: &penstock_gateway::ToolCall| json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}});
        message["tool_calls"] = said.tool_calls.iter().map(call).collect();
    }
    let choice = json!({"index": 0, "message": message, "finish_reason": reason.as_str()});
    let mut whole = json!({
        "id": format!("chatcmpl-{id}"), "object": "chat.completion", "created": 0, "model": model, "choices": [choice],
    });
    if let Some(usage) = usage {
        whole["usage"] = wire_usage(usage);
    }
    whole
}

fn wire_usage(usage: &TokenUsage) -> Value {
    json!({
        "prompt_tokens": usage.input_tokens.unwrap_or(0),
        "completion_tokens": usage.output_tokens.unwrap_or(0),
        "total_tokens": usage.total_tokens.unwrap_or(0),
        "prompt_tokens_details": {"cached_tokens": usage.cached_input_tokens.unwrap_or(0)},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens.unwrap_or(0)},
    })
}

/// Status and body of a call that gave no answer, and the seconds after which it may.
pub(crate) fn failure(error: &GatewayError) -> (u16, Value, Option<u64>) {
    let (status, wait) = match error {
        GatewayError::UnknownChain { .. } => (404, None),
        GatewayError::Failed(failed) => {
            let status = match failed.outcome {
                Outcome::RateLimited | Outcome::NoPermit => 429,
                Outcome::Refused | Outcome::ContextTooLong => failed.status.unwrap_or(400),
                Outcome::FirstToken | Outcome::Total | Outcome::Deadline => 504,
                _ => 502,
            };
            (status, failed.retry_after)
        }
        // Also where every hop is out of tokens: peers say 429 then, and so do benches count.
        GatewayError::AllExitsDown { retry_after, .. } => (429, Some(*retry_after)),
        _ => (500, None),
    };
    let body = json!({"error": {"message": error.to_string(), "type": "gateway_error", "code": error.code().as_str()}});
    (status, body, wait.map(|wait| wait.as_secs().max(1)))
}
