//! Reads responses of a stream into the turn.

use std::borrow::Cow;

use penstock_protocol::TokenUsage;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::provider::answer::Read;
use crate::provider::trouble::Trouble;
use crate::provider::turn::Turn;
use crate::tool_call::Piece;
use crate::{Fields, FinishReason, Outcome};

/// What is remembered between responses.
#[derive(Debug, Default)]
pub(in crate::provider) struct Gemini {
    /// Calls have no index on the wire; each part is a whole call.
    calls_count: u32,
}

/// One response of the stream: only what is used, unknown is skipped.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Response<'a> {
    #[serde(borrow)]
    candidates: Option<Vec<Candidate<'a>>>,
    usage_metadata: Option<UsageMetadata>,
    prompt_feedback: Option<PromptFeedback>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Candidate<'a> {
    index: Option<u32>,
    #[serde(borrow)]
    content: Option<Content<'a>>,
    finish_reason: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Content<'a> {
    #[serde(borrow)]
    parts: Option<Vec<Part<'a>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Part<'a> {
    text: Option<String>,
    thought: bool,
    #[serde(borrow)]
    thought_signature: Option<&'a RawValue>,
    #[serde(borrow)]
    function_call: Option<FunctionCall<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct FunctionCall<'a> {
    id: Option<String>,
    name: String,
    #[serde(borrow)]
    args: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PromptFeedback {
    block_reason: Option<String>,
    block_reason_message: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct UsageMetadata {
    prompt_token_count: Option<u64>,
    tool_use_prompt_token_count: Option<u64>,
    candidates_token_count: Option<u64>,
    thoughts_token_count: Option<u64>,
    cached_content_token_count: Option<u64>,
}

impl Gemini {
    /// Reads one response, or the list of them that a server sends which does not know `alt=sse`.
    pub(in crate::provider) fn read(&mut self, data: &[u8], turn: &mut Turn) -> Result<Read, serde_json::Error> {
        if data.trim_ascii_start().starts_with(b"[") {
            for response in serde_json::from_slice::<Vec<Response<'_>>>(data)? {
                if self.response(response, turn) == Read::Error {
                    return Ok(Read::Error);
                }
            }
            return Ok(Read::Piece);
        }
        Ok(self.response(serde_json::from_slice(data)?, turn))
    }

    fn response(&mut self, response: Response<'_>, turn: &mut Turn) -> Read {
        if response.error.is_some() {
            return Read::Error;
        }
        if let Some(usage) = response.usage_metadata {
            turn.usage = Some(usage.normal());
        }
        if let Some(reason) = response.prompt_feedback.and_then(PromptFeedback::refusal) {
            turn.fail(reason);
        }
        for candidate in response.candidates.into_iter().flatten().filter(|one| one.index.unwrap_or(0) == 0) {
            let parts = candidate.content.and_then(|content| content.parts);
            for part in parts.into_iter().flatten() {
                self.part(part, turn);
            }
            match candidate.finish_reason.as_deref() {
                None | Some("" | "FINISH_REASON_UNSPECIFIED") => {}
                Some(reason) => turn.finish(finish_reason(reason)),
            }
        }
        Read::Piece
    }

    fn part(&mut self, part: Part<'_>, turn: &mut Turn) {
        let text = part.text.unwrap_or_default();
        if let Some(call) = part.function_call {
            let mut marks = Fields::new();
            if let Some(signature) = part.thought_signature {
                marks.set_raw("thoughtSignature", signature.to_owned());
            }
            let index = Some(self.calls_count);
            self.calls_count += 1;
            turn.tool(Piece {
                index,
                id: Cow::Owned(call.id.unwrap_or_default()),
                name: Cow::Owned(call.name),
                arguments: Cow::Borrowed(call.args.map(RawValue::get).filter(|args| *args != "null").unwrap_or("{}")),
                marks,
            });
        } else if part.thought {
            turn.reasoning(text);
        } else {
            turn.text(text);
        }
    }
}

impl PromptFeedback {
    /// A blocked prompt has no candidates, and is the request's fault.
    fn refusal(self) -> Option<Trouble> {
        let reason = self.block_reason.filter(|reason| reason != "BLOCKED_REASON_UNSPECIFIED")?;
        let message = self.block_reason_message.unwrap_or_else(|| "the provider blocked the prompt".to_owned());
        Some(Trouble { code: Some(reason.into()), ..Trouble::own(Outcome::Refused, message) })
    }
}

impl UsageMetadata {
    /// The counts in Penstock's meaning: input with what tools added to it, output with thoughts.
    fn normal(&self) -> TokenUsage {
        let sum = |one: Option<u64>, two: Option<u64>| match (one, two) {
            (None, None) => None,
            (one, two) => Some(one.unwrap_or(0).saturating_add(two.unwrap_or(0))),
        };
        let input = sum(self.prompt_token_count, self.tool_use_prompt_token_count);
        let output = sum(self.candidates_token_count, self.thoughts_token_count);
        TokenUsage {
            input_tokens: input,
            output_tokens: output,
            total_tokens: input.zip(output).map(|(input, output)| input.saturating_add(output)),
            reasoning_tokens: self.thoughts_token_count,
            cached_input_tokens: self.cached_content_token_count,
            ..TokenUsage::default()
        }
    }
}

fn finish_reason(reason: &str) -> FinishReason {
    match reason {
        "STOP" => FinishReason::Stop,
        "MAX_TOKENS" => FinishReason::Length,
        "SAFETY"
        | "RECITATION"
        | "BLOCKLIST"
        | "PROHIBITED_CONTENT"
        | "SPII"
        | "LANGUAGE"
        | "IMAGE_SAFETY"
        | "IMAGE_PROHIBITED_CONTENT"
        | "IMAGE_RECITATION" => FinishReason::ContentFilter,
        other => FinishReason::Other(other.to_lowercase()),
    }
}
