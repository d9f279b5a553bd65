//! What an attempt left open on its stream: whoever goes on with the run, or finishes it, closes that first.
//!
//! AG-UI: a run that is picked up again sends END for every open item, then snapshots without the partial answer; and no
//! run finishes while an item is open.

use serde::Deserialize;

use crate::Event;

/// Items that were started and not ended, in the order of their start.
#[derive(Debug, Default)]
pub struct OpenItems {
    open: Vec<Item>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Item {
    Text(String),
    Reasoning(String),
    ReasoningSpan(String),
    Step(String),
}

/// The part of an event that opens or closes something.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "SCREAMING_SNAKE_CASE", rename_all_fields = "camelCase")]
enum Boundary {
    TextMessageStart {
        message_id: String,
    },
    TextMessageEnd {
        message_id: String,
    },
    ReasoningMessageStart {
        message_id: String,
    },
    ReasoningMessageEnd {
        message_id: String,
    },
    ReasoningStart {
        message_id: String,
    },
    ReasoningEnd {
        message_id: String,
    },
    StepStarted {
        step_name: String,
    },
    StepFinished {
        step_name: String,
    },
    #[serde(other)]
    Inside,
}

impl OpenItems {
    /// Takes the next event of the stream, as stored.
    pub fn take(&mut self, event: &str) {
        let Ok(boundary) = serde_json::from_str(event) else { return };
        let (item, opens) = match boundary {
            Boundary::TextMessageStart { message_id } => (Item::Text(message_id), true),
            Boundary::TextMessageEnd { message_id } => (Item::Text(message_id), false),
            Boundary::ReasoningMessageStart { message_id } => (Item::Reasoning(message_id), true),
            Boundary::ReasoningMessageEnd { message_id } => (Item::Reasoning(message_id), false),
            Boundary::ReasoningStart { message_id } => (Item::ReasoningSpan(message_id), true),
            Boundary::ReasoningEnd { message_id } => (Item::ReasoningSpan(message_id), false),
            Boundary::StepStarted { step_name } => (Item::Step(step_name), true),
            Boundary::StepFinished { step_name } => (Item::Step(step_name), false),
            Boundary::Inside => return,
        };
        self.open.retain(|open| *open != item);
        if opens {
            self.open.push(item);
        }
    }

    /// The events that close everything, innermost first.
    #[must_use]
    pub fn closing(self) -> Vec<Event> {
        let close = |item| match item {
            Item::Text(message_id) => Event::TextMessageEnd { message_id },
            Item::Reasoning(message_id) => Event::ReasoningMessageEnd { message_id },
            Item::ReasoningSpan(message_id) => Event::ReasoningEnd { message_id },
            Item::Step(step_name) => Event::StepFinished { step_name },
        };
        self.open.into_iter().rev().map(close).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_open_is_closed_innermost_first() {
        let mut items = OpenItems::default();
        for event in [
            Event::StepStarted { step_name: "think".into() },
            Event::ReasoningStart { message_id: "r".into() },
            Event::ReasoningEnd { message_id: "r".into() },
            Event::TextMessageStart { message_id: "m".into(), role: "assistant".into() },
            Event::TextMessageContent { message_id: "m".into(), delta: "hi".into() },
        ] {
            items.take(&event.to_json());
        }
        items.take("not an event");
        assert_eq!(
            items.closing(),
            [Event::TextMessageEnd { message_id: "m".into() }, Event::StepFinished { step_name: "think".into() }]
        );
    }
}
