//! The script: which of the calls that match a rule gets which behaviour. Read from a TOML or JSON file, or by
//! `POST /fake/script`.
//!
//! ```toml
//! [[rule]]
//! model = "steady"                       # exact, or a start with `*` at its end; left out: every model
//! text = "hello"                         # part of the last user message; left out: every message
//! behaviours = ["status=500", "instant"] # the n-th matching call gets the n-th
//! repeat = "last"                        # then: `last` for ever, `loop` from the start, or `once`: the rule is over
//! ```

use std::path::Path;

use serde::Deserialize;

use super::behaviour::{Behaviour, BehaviourError};

/// Rules in order; the first that matches and is not over decides.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// The rules.
    #[serde(default, rename = "rule")]
    pub rules: Vec<Rule>,
}

/// One rule.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Model, exact or with a `*` at its end.
    pub model: Option<String>,
    /// Part of the last user message.
    pub text: Option<String>,
    /// Behaviours in the order of the calls.
    pub behaviours: Vec<String>,
    /// What follows after the last one.
    #[serde(default)]
    pub repeat: Repeat,
}

/// What a rule does when its behaviours are used up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Repeat {
    /// The last behaviour stays.
    #[default]
    Last,
    /// From the start.
    Loop,
    /// The rule matches no more.
    Once,
}

/// A script that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    /// The file cannot be read.
    #[error("the script cannot be read")]
    Unreadable(#[from] std::io::Error),
    /// Not TOML, or not a script.
    #[error("the script is not a list of rules in TOML")]
    Toml(#[from] toml::de::Error),
    /// Not JSON, or not a script.
    #[error("the script is not a list of rules in JSON")]
    Json(#[from] serde_json::Error),
    /// A behaviour is not of the grammar.
    #[error(transparent)]
    Behaviour(#[from] BehaviourError),
    /// A rule without behaviours.
    #[error("a rule has no behaviours")]
    EmptyRule,
}

impl Script {
    /// Reads a file: JSON if its name ends so, else TOML.
    ///
    /// # Errors
    /// When the file is not a script.
    pub fn read(path: &Path) -> Result<Self, ScriptError> {
        let text = std::fs::read_to_string(path)?;
        if path.extension().is_some_and(|extension| extension == "json") {
            Self::from_json(text.as_bytes())
        } else {
            toml::from_str::<Self>(&text)?.checked()
        }
    }

    /// Reads JSON: `{"rule": [ … ]}`.
    ///
    /// # Errors
    /// When the text is not a script.
    pub fn from_json(json: &[u8]) -> Result<Self, ScriptError> {
        serde_json::from_slice::<Self>(json)?.checked()
    }

    fn checked(self) -> Result<Self, ScriptError> {
        for rule in &self.rules {
            if rule.behaviours.is_empty() {
                return Err(ScriptError::EmptyRule);
            }
            rule.behaviours.iter().try_for_each(|text| Behaviour::default().apply(text))?;
        }
        Ok(self)
    }
}

impl Rule {
    pub(super) fn matches(&self, model: &str, text: &str) -> bool {
        let is_model = self.model.as_deref().is_none_or(|wanted| match wanted.strip_suffix('*') {
            Some(start) => model.starts_with(start),
            None => model == wanted,
        });
        is_model && self.text.as_deref().is_none_or(|wanted| text.contains(wanted))
    }

    /// The behaviour of matching call number `n`, from 0.
    pub(super) fn behaviour(&self, n: usize) -> Option<&str> {
        let last = self.behaviours.len().checked_sub(1)?;
        let position = match self.repeat {
            Repeat::Last => n.min(last),
            Repeat::Loop => n % (last + 1),
            Repeat::Once => n,
        };
        self.behaviours.get(position).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_gives_its_behaviours_in_order_and_then_repeats() {
        let rule = |repeat| Rule { behaviours: vec!["status=500".into(), "instant".into()], repeat, ..Rule::default() };
        let given = |repeat| (0..4).map(|n| rule(repeat).behaviour(n).map(str::to_owned)).collect::<Vec<_>>();
        let (error, instant) = (Some("status=500".to_owned()), Some("instant".to_owned()));
        assert_eq!(given(Repeat::Last), [error.clone(), instant.clone(), instant.clone(), instant.clone()]);
        assert_eq!(given(Repeat::Loop), [error.clone(), instant.clone(), error.clone(), instant.clone()]);
        assert_eq!(given(Repeat::Once), [error, instant, None, None]);
    }

    #[test]
    fn rules_match_by_model_and_text() {
        let rule = Rule { model: Some("gpt*".into()), text: Some("hello".into()), ..Rule::default() };
        assert!(rule.matches("gpt-5", "oh hello"));
        assert!(!rule.matches("gpt-5", "bye"));
        assert!(!rule.matches("claude", "hello"));
    }

    #[test]
    fn a_script_with_a_mistake_is_refused() {
        for json in [
            r#"{"rule":[{"behaviours":["status=oops"]}]}"#,
            r#"{"rule":[{"behaviours":[]}]}"#,
            r#"{"rules":[]}"#,
            "[]x",
        ] {
            assert!(Script::from_json(json.as_bytes()).is_err(), "{json}");
        }
    }
}
