//! What is said about chains when they are built: hops that some requests pass over, models that nobody knows, chains without
//! a way out.

use super::{Chain, Facts};
use crate::settings::{Hop, Settings};

/// Says it once per build, in the log.
pub(super) fn inspect(name: &str, chain: &Chain, hops: &[Hop], settings: &Settings) {
    for hop in &chain.hops {
        let exit = &hop.exit.labels;
        let Facts { context_tokens, tools, vision, json_schema } = hop.facts;
        let lacks: Vec<_> = [(tools, "tools"), (vision, "vision"), (json_schema, "json_schema")]
            .into_iter()
            .filter_map(|(fact, name)| (fact == Some(false)).then_some(name))
            .collect();
        if !lacks.is_empty() {
            tracing::info!(chain = name, hop = %exit, lacks = lacks.join(", "), "calls that need these pass over the hop");
        }
        if tools.is_none() && vision.is_none() && json_schema.is_none() && context_tokens.is_none() {
            tracing::warn!(
                chain = name,
                hop = %exit,
                "nothing is known about this model, so it is used whatever a request needs: set the provider's `vendor`, \
                 or say under [models] what the model can do"
            );
        }
    }
    if let [first, .., last] = hops
        && are_family(first, last, settings)
    {
        tracing::warn!(
            chain = name,
            "the last hop is of the first one's family: what takes down one vendor's models leaves this chain no way out"
        );
    }
    if hops.len() == 1 {
        tracing::info!(chain = name, "the chain has one hop: calls have nowhere to go when it is down");
    }
}

/// Whether one outage is likely to take down both: the same vendor, or the same line of models.
fn are_family(first: &Hop, last: &Hop, settings: &Settings) -> bool {
    let vendor = |hop: &Hop| {
        let provider = settings.providers.get(&hop.exit.provider);
        provider.and_then(|provider| provider.vendor.clone()).unwrap_or_else(|| hop.exit.provider.clone())
    };
    vendor(first) == vendor(last) || line(&first.exit.model) == line(&last.exit.model)
}

/// The letters that a model's name begins with: `gpt`, `claude`, `llama`.
fn line(model: &str) -> String {
    let name = model.rsplit('/').next().unwrap_or(model);
    name.chars().take_while(|c| c.is_ascii_alphabetic()).map(|c| c.to_ascii_lowercase()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_models_line_is_the_beginning_of_its_name() {
        for (model, name) in
            [("gpt-5-mini", "gpt"), ("claude-opus-5", "claude"), ("accounts/fireworks/models/llama-v3p1", "llama")]
        {
            assert_eq!(line(model), name);
        }
    }
}
