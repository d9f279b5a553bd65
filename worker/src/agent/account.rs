//! What an attempt spent: model calls, usage per provider and model, and who served last.

use penstock_protocol::TokenUsage;

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
    /// Notes that a provider began to answer.
    pub(crate) fn served(&mut self, provider: &str, model: &str) {
        self.calls += 1;
        self.model = Some(format!("{provider}/{model}"));
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
