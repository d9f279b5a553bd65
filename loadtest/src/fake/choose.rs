//! Puts the behaviour of a call together from its layers, and remembers which step of a sequence is next.

use std::collections::HashMap;

use super::behaviour::{Behaviour, BehaviourError};
use super::script::Script;

/// Most sequences remembered; beyond, all start over.
const SEQUENCES_MAX: usize = 10_000;

/// What chooses; one per server, behind its lock.
#[derive(Debug, Default)]
pub(super) struct Chooser {
    script: Script,
    /// Calls that each rule has matched.
    matched: Vec<usize>,
    /// Next step of each (who, sequence).
    steps: HashMap<(String, String), usize>,
}

/// What of a call chooses its behaviour.
#[derive(Debug)]
pub(super) struct Choice<'a> {
    pub(super) model: &'a str,
    pub(super) tag: Option<&'a str>,
    pub(super) last_user_text: &'a str,
    pub(super) header: Option<&'a str>,
}

impl Chooser {
    pub(super) fn new(script: Script) -> Self {
        let matched = vec![0; script.rules.len()];
        Self { script, matched, steps: HashMap::new() }
    }

    /// The behaviour of the next call.
    pub(super) fn choose(&mut self, choice: &Choice<'_>) -> Result<Behaviour, BehaviourError> {
        let mut behaviour = Behaviour::default();
        behaviour.apply_model(self.step(choice, choice.model))?;
        let rules = self.script.rules.iter().zip(&mut self.matched);
        for (rule, matched) in rules {
            if rule.matches(choice.model, choice.last_user_text)
                && let Some(text) = rule.behaviour(*matched)
            {
                *matched += 1;
                behaviour.apply(text)?;
                break;
            }
        }
        let layers = [marker(choice.last_user_text), choice.header];
        layers.into_iter().flatten().try_for_each(|text| behaviour.apply(self.step(choice, text)))?;
        Ok(behaviour)
    }

    /// The step of `text` that this call is to get.
    fn step<'a>(&mut self, choice: &Choice<'_>, text: &'a str) -> &'a str {
        let Some((first, _)) = text.split_once(" then ") else { return text };
        if self.steps.len() >= SEQUENCES_MAX {
            self.steps.clear();
        }
        let who = choice.tag.unwrap_or(choice.last_user_text).to_owned();
        let next = self.steps.entry((who, text.to_owned())).or_insert(0);
        let step = text.split(" then ").nth(*next);
        *next += usize::from(step.is_some());
        step.or_else(|| text.split(" then ").last()).unwrap_or(first)
    }
}

const MARKER: (&str, &str) = ("[[fake:", "]]");

/// The behaviour in `[[fake: …]]`.
fn marker(text: &str) -> Option<&str> {
    let (_, after) = text.split_once(MARKER.0)?;
    after.split_once(MARKER.1).map(|(inside, _)| inside)
}

/// A message without its marker.
pub(super) fn without_marker(text: &str) -> String {
    let parts = text.split_once(MARKER.0).and_then(|(before, after)| Some((before, after.split_once(MARKER.1)?.1)));
    match parts {
        Some((before, after)) => format!("{}{after}", before.trim_end()).trim().to_owned(),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call<'a>(model: &'a str, text: &'a str, tag: Option<&'a str>, header: Option<&'a str>) -> Choice<'a> {
        Choice { model, tag, last_user_text: text, header }
    }

    #[test]
    fn later_layers_change_what_earlier_ones_set() {
        let script = Script::from_json(br#"{"rule":[{"behaviours":["chunks=7,gap_ms=1"]}]}"#).unwrap();
        let mut chooser = Chooser::new(script);
        let chosen = chooser.choose(&call("steady", "x [[fake: chunks=8]]", None, Some("first_ms=9"))).unwrap();
        assert_eq!(chosen.chunks, 8);
        assert_eq!((chosen.gap.as_millis(), chosen.first.as_millis()), (1, 9));
    }

    #[test]
    fn steps_are_counted_for_each_tag_and_the_last_stays() {
        let mut chooser = Chooser::default();
        let mut statuses = |tag| {
            let text = "hi [[fake: status=500 then status=503 then instant]]";
            (0..4).map(|_| chooser.choose(&call("m", text, Some(tag), None)).unwrap().status).collect::<Vec<_>>()
        };
        assert_eq!(statuses("a"), [Some(500), Some(503), None, None]);
        assert_eq!(statuses("b"), [Some(500), Some(503), None, None]);
    }

    #[test]
    fn a_rule_that_is_over_lets_the_next_decide() {
        let json = br#"{"rule":[{"behaviours":["status=500"],"repeat":"once"},{"behaviours":["status=503"]}]}"#;
        let mut chooser = Chooser::new(Script::from_json(json).unwrap());
        let mut status = || chooser.choose(&call("m", "", None, None)).unwrap().status;
        assert_eq!([status(), status(), status()], [Some(500), Some(503), Some(503)]);
    }

    #[test]
    fn a_marker_is_no_part_of_the_question() {
        assert_eq!(without_marker("what is up? [[fake: chunks=1]]"), "what is up?");
        assert_eq!(without_marker("[[fake: chunks=1]] hello"), "hello");
        assert_eq!(without_marker("no [[fake: end"), "no [[fake: end");
    }
}
