//! What an attempt spent: model calls, usage per provider and model, and who served last.

use penstock_gateway::ModelStream;
use penstock_protocol::{Event, TokenUsage};
use serde_json::json;

/// The account of one attempt.
#[derive(Clone, Debug, Default)]
pub(crate) struct Account {
    /// One entry per provider and model.
    pub(crate) usage: Vec<TokenUsage>,
    /// `provider/model` that served last.
    pub(crate) model: Option<String>,
    /// Model calls that were answered, in whole or in part.
    pub(crate) calls: u32,
}

impl Account {
    /// Notes that a provider began to answer. The event that tells of it, when another answers than the last time, or at
    /// the first call another than the chain's first hop.
    pub(crate) fn served(&mut self, stream: &ModelStream) -> Option<Event> {
        self.calls += 1;
        let now = format!("{}/{}", stream.provider(), stream.model());
        let fallback = stream.fallback();
        let before = self.model.replace(now.clone()).or_else(|| fallback.map(|fallback| fallback.from.clone()))?;
        (before != now).then(|| Event::Custom {
            name: "penstock.model_fallback".to_owned(),
            value: json!({
                "from": before,
                "to": now,
                "reason": fallback.map_or("recovered", |fallback| fallback.reason.as_str()),
                "attempt": stream.attempts(),
            }),
        })
    }

    /// Adds what a provider counted.
    pub(crate) fn add(&mut self, usage: TokenUsage) {
        let same = |entry: &&mut TokenUsage| entry.provider == usage.provider && entry.model == usage.model;
        match self.usage.iter_mut().find(same) {
            Some(entry) => entry.add(&usage),
            None => self.usage.push(usage),
        }
    }

    /// All tokens counted; `None` while nothing is known.
    pub(crate) fn tokens(&self) -> Option<u64> {
        self.usage.iter().filter_map(|usage| usage.total_tokens).reduce(u64::saturating_add)
    }
}
