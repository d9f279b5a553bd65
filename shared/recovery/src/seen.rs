//! What a cancelled task's client has seen, where no worker can say: read back from the event stream.
//!
//! The text becomes the result of the row, and items that are open are closed, since AG-UI lets no run finish with them.

use penstock_protocol::{Event, EventId, OpenItems, TaskKey, answer};
use penstock_queue::{Emission, Queue, StoredEvent};
use penstock_store::Store;
use serde_json::Value;

use crate::{Recovery, RecoveryError};

/// Events read at once.
const PAGE_EVENTS: usize = 200;
/// Longest text that is kept, in bytes; no worker is allowed a longer answer.
const TEXT_BYTES_MAX: usize = 16 << 20;

/// What a stream has shown.
#[derive(Debug, Default)]
struct Seen {
    last: Option<(EventId, u64)>,
    message_id: String,
    text: String,
    open: OpenItems,
}

impl Recovery {
    /// Closes what `attempt` of a task left open on its stream, fencing it, and returns the text that was seen.
    pub async fn close_seen(&self, key: TaskKey, attempt: u32) -> Result<Option<Value>, RecoveryError> {
        close_seen(&self.queue, key, attempt).await
    }
}

/// Closes what a cancelled task left open on its stream, and stores the text that was seen as its result.
///
/// Call it before the end of a task is published that no worker runs. `attempt` is the row's.
pub async fn store_seen(queue: &Queue, store: &Store, key: TaskKey, attempt: u32) -> Result<(), RecoveryError> {
    if let Some(seen) = close_seen(queue, key, attempt).await? {
        store.add_seen(key, &seen).await?;
    }
    Ok(())
}

async fn close_seen(queue: &Queue, key: TaskKey, attempt: u32) -> Result<Option<Value>, RecoveryError> {
    let seen = Seen::read(queue, key).await?;
    let Some((id, seq)) = seen.last else { return Ok(None) };
    let text = (!seen.text.is_empty()).then(|| answer(&seen.message_id, &seen.text));
    let closing: Vec<_> = seen.open.closing().iter().map(Event::to_json).collect();
    if !closing.is_empty() {
        // Behind the fence, where there is one; else this is the fence.
        let next = attempt + 1;
        let first_n = if id.attempt >= u64::from(next) { id.n + 1 } else { 0 };
        let emission = Emission { key, attempt: next, first_n, first_seq: seq + 1, events: &closing };
        // A stream that was ended or taken over meanwhile refuses them, and needs them no more.
        queue.emit(&emission).await?;
    }
    Ok(text)
}

impl Seen {
    async fn read(queue: &Queue, key: TaskKey) -> Result<Self, RecoveryError> {
        let mut seen = Self::default();
        loop {
            let after = seen.last.map(|(id, _)| id).unwrap_or_default();
            let page = queue.read_events(key, after, PAGE_EVENTS).await?;
            page.iter().for_each(|stored| seen.take(stored));
            if page.len() < PAGE_EVENTS {
                return Ok(seen);
            }
        }
    }

    fn take(&mut self, stored: &StoredEvent) {
        self.last = Some((stored.id, stored.seq));
        self.open.take(&stored.event);
        match serde_json::from_str(&stored.event) {
            Ok(Event::TextMessageStart { message_id, .. }) => {
                self.text.clear();
                self.message_id = message_id;
            }
            Ok(Event::TextMessageContent { delta, .. }) if self.text.len() + delta.len() <= TEXT_BYTES_MAX => {
                self.text.push_str(&delta);
            }
            // A run that is picked up again shows the conversation anew, without the partial answer.
            Ok(Event::MessagesSnapshot { .. }) => self.text.clear(),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_the_latest_message_is_what_was_seen() {
        let mut seen = Seen::default();
        let content = |delta: &str| Event::TextMessageContent { message_id: "m".into(), delta: delta.into() };
        let start = |id: &str| Event::TextMessageStart { message_id: id.into(), role: "assistant".into() };
        let events = [
            start("first"),
            content("gone"),
            Event::MessagesSnapshot { messages: vec![] },
            start("second"),
            content("it is "),
            content("half"),
        ];
        for (n, event) in (1..).zip(events) {
            seen.take(&StoredEvent { id: EventId { attempt: 1, n }, seq: n, event: event.to_json() });
        }
        assert_eq!((seen.message_id.as_str(), seen.text.as_str()), ("second", "it is half"));
        assert_eq!(seen.last, Some((EventId { attempt: 1, n: 6 }, 6)));
        assert_eq!(
            seen.open.closing(),
            [
                Event::TextMessageEnd { message_id: "second".into() },
                Event::TextMessageEnd { message_id: "first".into() },
            ]
        );
    }
}
