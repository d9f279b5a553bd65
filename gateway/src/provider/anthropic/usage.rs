//! What the vendor counted, brought to one meaning: here input leaves out what a cache gave or took.

use penstock_protocol::TokenUsage;
use serde::Deserialize;

/// `usage` of a message.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct WireUsage {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
    output_tokens_details: Option<OutputDetails>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
struct OutputDetails {
    thinking_tokens: Option<u64>,
}

impl WireUsage {
    /// Takes over what `newer` tells; what it leaves out stays.
    pub(super) fn update(&mut self, newer: Self) {
        self.input_tokens = newer.input_tokens.or(self.input_tokens);
        self.output_tokens = newer.output_tokens.or(self.output_tokens);
        self.cache_read_input_tokens = newer.cache_read_input_tokens.or(self.cache_read_input_tokens);
        self.cache_creation_input_tokens = newer.cache_creation_input_tokens.or(self.cache_creation_input_tokens);
        self.output_tokens_details = newer.output_tokens_details.or(self.output_tokens_details);
    }

    /// The counts in Penstock's meaning, without the name of who served.
    pub(super) fn normal(&self) -> TokenUsage {
        let (read, written) = (self.cache_read_input_tokens, self.cache_creation_input_tokens);
        let of_cache = read.unwrap_or(0).saturating_add(written.unwrap_or(0));
        let input = self.input_tokens.map(|input| input.saturating_add(of_cache));
        TokenUsage {
            input_tokens: input,
            output_tokens: self.output_tokens,
            total_tokens: input.zip(self.output_tokens).map(|(input, output)| input.saturating_add(output)),
            reasoning_tokens: self.output_tokens_details.and_then(|details| details.thinking_tokens),
            cached_input_tokens: read,
            cache_write_input_tokens: written,
            ..TokenUsage::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(json: &str) -> WireUsage {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn input_includes_what_a_cache_gave_and_later_counts_replace_earlier_ones() {
        let mut held = usage(
            r#"{"input_tokens":10,"output_tokens":1,"cache_read_input_tokens":64,"cache_creation_input_tokens":6}"#,
        );
        held.update(usage(
            r#"{"output_tokens":20,"output_tokens_details":{"thinking_tokens":8},"cache_read_input_tokens":null}"#,
        ));
        let normal = held.normal();
        assert_eq!((normal.input_tokens, normal.output_tokens, normal.total_tokens), (Some(80), Some(20), Some(100)));
        assert_eq!((normal.cached_input_tokens, normal.cache_write_input_tokens), (Some(64), Some(6)));
        assert_eq!(normal.reasoning_tokens, Some(8));
        assert_eq!(usage("{}").normal(), TokenUsage::default());
    }
}
