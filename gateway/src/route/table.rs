//! What is known about models: the shipped table, with what the settings say about a model over it.
//!
//! An absent fact is unknown, not false. A model is found by its exact id, else by the longest id of the same vendor that it
//! begins with, up to a `-`, `@` or `:`, so that a dated version finds its model and `gpt-4.1` does not find `gpt-4`.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde::Deserialize;

use crate::settings::{Exit, Model, Settings};

/// Facts taken from public tables; see the file's own `about`.
const SHIPPED: &str = include_str!("../../data/models.json");

static TABLE: LazyLock<Table> = LazyLock::new(|| Table::read(SHIPPED).unwrap_or_default());

/// What is known about one model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct Facts {
    /// Longest request in tokens.
    #[serde(rename = "max_input_tokens")]
    pub(crate) context_tokens: Option<u64>,
    pub(crate) tools: Option<bool>,
    pub(crate) vision: Option<bool>,
    pub(crate) json_schema: Option<bool>,
}

impl Facts {
    /// What is known about `exit`.
    pub(crate) fn of(exit: &Exit, settings: &Settings) -> Self {
        let vendor = settings.providers.get(&exit.provider).and_then(|provider| provider.vendor.as_deref());
        let shipped = TABLE.find(vendor.unwrap_or(&exit.provider), &exit.model).unwrap_or_default();
        match settings.models.get(exit) {
            Some(Model { context_tokens, tools, vision, json_schema, .. }) => Self {
                context_tokens: context_tokens.or(shipped.context_tokens),
                tools: tools.or(shipped.tools),
                vision: vision.or(shipped.vision),
                json_schema: json_schema.or(shipped.json_schema),
            },
            None => shipped,
        }
    }
}

/// Vendor → model → facts.
#[derive(Debug, Default)]
struct Table(HashMap<String, HashMap<String, Facts>>);

impl Table {
    fn read(text: &str) -> Result<Self, serde_json::Error> {
        #[derive(Deserialize)]
        struct File {
            models: Vec<Row>,
        }

        #[derive(Deserialize)]
        struct Row {
            provider: String,
            model: String,
            #[serde(flatten)]
            facts: Facts,
        }

        let file: File = serde_json::from_str(text)?;
        let mut table = Self::default();
        for row in file.models {
            table.0.entry(row.provider).or_default().insert(row.model, row.facts);
        }
        Ok(table)
    }

    fn find(&self, vendor: &str, model: &str) -> Option<Facts> {
        let models = self.0.get(vendor)?;
        let ends = model.char_indices().filter(|(_, c)| matches!(c, '-' | '@' | ':')).map(|(end, _)| end);
        let mut ends: Vec<_> = ends.chain([model.len()]).collect();
        ends.reverse();
        ends.into_iter().find_map(|end| models.get(&model[..end])).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_table_can_be_read() {
        let table = Table::read(SHIPPED).unwrap();
        assert!(table.0.values().map(HashMap::len).sum::<usize>() > 800);
        let known = table.find("deepseek", "deepseek-reasoner").unwrap();
        assert_eq!((known.tools, known.context_tokens), (Some(false), Some(131_072)));
        assert_eq!(table.find("nobody", "deepseek-reasoner"), None);
    }

    #[test]
    fn a_model_is_found_by_its_id_or_the_longest_beginning_of_it() {
        let table = Table::read(
            r#"{"models":[
                {"provider":"v","model":"gpt-4","max_input_tokens":4},
                {"provider":"v","model":"gpt-4-turbo","max_input_tokens":5,"unknown_fact":1},
                {"provider":"v","model":"gpt-4.1","max_input_tokens":6}]}"#,
        )
        .unwrap();
        let context = |model: &str| table.find("v", model).and_then(|facts| facts.context_tokens);
        for (model, tokens) in [
            ("gpt-4", Some(4)),
            ("gpt-4-0613", Some(4)),
            ("gpt-4-turbo-2024-04-09", Some(5)),
            ("gpt-4.1-mini", Some(6)),
            ("gpt-4.2", None),
            ("gpt-40", None),
            ("ggpt-4", None),
        ] {
            assert_eq!(context(model), tokens, "{model}");
        }
    }
}
