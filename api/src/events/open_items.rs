//! Which messages, tool calls and steps of a run are open: a run may only finish once they are closed.
//!
//! Kept by text prefix, so that the many content events cost one comparison. Needed when the end of a run is rebuilt
//! from MySQL and its last events are lost.

use serde::Deserialize;

/// Items in the order in which they were opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct OpenItems(Vec<(Lane, String)>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lane {
    Text,
    ReasoningMessage,
    Reasoning,
    ToolCall,
    Step,
}

impl Lane {
    const ALL: [Self; 5] = [Self::Text, Self::ReasoningMessage, Self::Reasoning, Self::ToolCall, Self::Step];

    /// Type that opens, type that closes, member that names.
    fn words(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Text => ("TEXT_MESSAGE_START", "TEXT_MESSAGE_END", "messageId"),
            Self::ReasoningMessage => ("REASONING_MESSAGE_START", "REASONING_MESSAGE_END", "messageId"),
            Self::Reasoning => ("REASONING_START", "REASONING_END", "messageId"),
            Self::ToolCall => ("TOOL_CALL_START", "TOOL_CALL_END", "toolCallId"),
            Self::Step => ("STEP_STARTED", "STEP_FINISHED", "stepName"),
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Named {
    message_id: Option<String>,
    tool_call_id: Option<String>,
    step_name: Option<String>,
}

impl OpenItems {
    /// Takes note of one event.
    pub(super) fn apply(&mut self, event: &str) {
        let Some((kind, _)) = event.strip_prefix(r#"{"type":""#).and_then(|rest| rest.split_once('"')) else { return };
        if matches!(kind, "RUN_STARTED" | "RUN_FINISHED" | "RUN_ERROR") {
            self.0.clear();
            return;
        }
        let found = Lane::ALL.into_iter().find_map(|lane| match lane.words() {
            (opens, _, _) if opens == kind => Some((lane, true)),
            (_, closes, _) if closes == kind => Some((lane, false)),
            _ => None,
        });
        let Some((lane, opens)) = found else { return };
        let Ok(named) = serde_json::from_str::<Named>(event) else { return };
        let name = match lane {
            Lane::Text | Lane::ReasoningMessage | Lane::Reasoning => named.message_id,
            Lane::ToolCall => named.tool_call_id,
            Lane::Step => named.step_name,
        };
        let Some(item) = name.map(|name| (lane, name)) else { return };
        self.0.retain(|open| *open != item);
        if opens {
            self.0.push(item);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The events that close what is open, the latest first.
    pub(super) fn closers(&self) -> Vec<String> {
        self.0
            .iter()
            .rev()
            .map(|(lane, name)| {
                let (_, closes, member) = lane.words();
                format!(r#"{{"type":"{closes}","{member}":{}}}"#, serde_json::Value::from(name.as_str()))
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use penstock_protocol::Event;

    use super::*;

    #[test]
    fn what_was_opened_and_not_closed_is_closed_in_reverse() {
        let mut open = OpenItems::default();
        for event in [
            Event::StepStarted { step_name: "plan \"a\"".into() },
            Event::TextMessageStart { message_id: "m1".into(), role: "assistant".into() },
            Event::TextMessageContent { message_id: "m1".into(), delta: "TEXT_MESSAGE_END".into() },
            Event::ReasoningStart { message_id: "r".into() },
            Event::ReasoningEnd { message_id: "r".into() },
        ] {
            open.apply(&event.to_json());
        }
        let closers = open.closers();
        assert_eq!(closers[0], Event::TextMessageEnd { message_id: "m1".into() }.to_json());
        assert_eq!(closers[1], Event::StepFinished { step_name: "plan \"a\"".into() }.to_json());
        assert_eq!(closers.len(), 2);
        closers.iter().for_each(|event| open.apply(event));
        assert!(open.is_empty());
    }
}
