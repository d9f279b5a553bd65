//! What a vendor counted, brought to one meaning: input includes what a cache gave, output includes reasoning.

use penstock_protocol::TokenUsage;
use serde::{Deserialize, Deserializer};

/// `usage` as OpenAI and its imitators write it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct WireUsage {
    #[serde(deserialize_with = "count")]
    prompt_tokens: Option<u64>,
    #[serde(deserialize_with = "count")]
    completion_tokens: Option<u64>,
    #[serde(deserialize_with = "count")]
    total_tokens: Option<u64>,
    prompt_tokens_details: Option<PromptDetails>,
    completion_tokens_details: Option<CompletionDetails>,
    /// `DeepSeek`: part of `prompt_tokens`.
    #[serde(deserialize_with = "count")]
    prompt_cache_hit_tokens: Option<u64>,
    /// Moonshot: part of `prompt_tokens`.
    #[serde(deserialize_with = "count")]
    cached_tokens: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PromptDetails {
    #[serde(deserialize_with = "count")]
    cached_tokens: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct CompletionDetails {
    #[serde(deserialize_with = "count")]
    reasoning_tokens: Option<u64>,
}

impl WireUsage {
    /// The counts in Penstock's meaning, without the name of who served.
    pub(super) fn normal(&self) -> TokenUsage {
        let input = self.prompt_tokens;
        let reasoning = self.completion_tokens_details.as_ref().and_then(|details| details.reasoning_tokens);
        let mut output = self.completion_tokens;
        // xAI counts reasoning beside the completion; its own total says so.
        if let (Some(input), Some(completion), Some(reasoning @ 1..), Some(total)) =
            (input, output, reasoning, self.total_tokens)
            && total == input.saturating_add(completion).saturating_add(reasoning)
        {
            output = Some(completion.saturating_add(reasoning));
        }
        TokenUsage {
            input_tokens: input,
            output_tokens: output,
            total_tokens: input.zip(output).map(|(input, output)| input.saturating_add(output)).or(self.total_tokens),
            reasoning_tokens: reasoning,
            cached_input_tokens: self
                .prompt_tokens_details
                .as_ref()
                .and_then(|details| details.cached_tokens)
                .or(self.prompt_cache_hit_tokens)
                .or(self.cached_tokens),
            ..TokenUsage::default()
        }
    }
}

/// A count, however it is written; what is no whole number from 0 is unknown and spoils nothing else.
fn count<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    let number = Option::<serde_json::Number>::deserialize(from)?;
    Ok(number.and_then(|number| {
        number.as_u64().or_else(|| {
            let number = number.as_f64().filter(|number| (0.0..9e15).contains(number))?;
            format!("{number:.0}").parse().ok()
        })
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normal(json: &str) -> [Option<u64>; 5] {
        let usage = serde_json::from_str::<WireUsage>(json).unwrap().normal();
        [usage.input_tokens, usage.output_tokens, usage.total_tokens, usage.reasoning_tokens, usage.cached_input_tokens]
    }

    #[test]
    fn every_vendors_counts_mean_the_same() {
        let openai = r#"{"prompt_tokens":100,"completion_tokens":20,"total_tokens":120,
            "prompt_tokens_details":{"cached_tokens":64,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":8}}"#;
        assert_eq!(normal(openai), [Some(100), Some(20), Some(120), Some(8), Some(64)]);
        let deep_seek = r#"{"prompt_tokens":100,"completion_tokens":20,"total_tokens":120,
            "prompt_cache_hit_tokens":64,"prompt_cache_miss_tokens":36}"#;
        assert_eq!(normal(deep_seek), [Some(100), Some(20), Some(120), None, Some(64)]);
        let moonshot = r#"{"prompt_tokens":100,"completion_tokens":20,"total_tokens":120,"cached_tokens":64}"#;
        assert_eq!(normal(moonshot), [Some(100), Some(20), Some(120), None, Some(64)]);
        let xai = r#"{"prompt_tokens":100,"completion_tokens":20,"total_tokens":128,
            "completion_tokens_details":{"reasoning_tokens":8}}"#;
        assert_eq!(normal(xai), [Some(100), Some(28), Some(128), Some(8), None]);
    }

    #[test]
    fn unknown_is_not_zero_and_odd_numbers_spoil_nothing() {
        assert_eq!(normal("{}"), [None; 5]);
        assert_eq!(
            normal(r#"{"prompt_tokens":12.0,"completion_tokens":-1,"prompt_tokens_details":null}"#),
            [Some(12), None, None, None, None]
        );
    }
}
