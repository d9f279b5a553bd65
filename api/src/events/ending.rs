//! The end of a run when its stream cannot tell it (expired, flushed, never written): built from the row in MySQL.
//!
//! Law 7: never a silent hole. A reader that saw nothing gets a prelude (RUN_STARTED, the conversation as a snapshot) and
//! the end. A reader that saw a part gets what is open closed, a snapshot where events may be missing between, and the
//! end. A reader of whom neither is known gets nothing: its cursor is gone.
//!
//! The cursors sort around every real event: `0-1`, `0-2` before them, `<attempt>-<2^40 + i>` and `<attempt>-<2^48>` behind.

use std::sync::Arc;

use penstock_protocol::message::{Content, Message};
use penstock_protocol::{Event, EventId, Input, TaskId, ThreadId};
use penstock_store::TaskRow;
use serde::Deserialize;
use serde_json::Value;

use super::frame::Frame;
use super::open_items::OpenItems;

/// `n` of the first event that was made up behind the real ones.
const REBUILT_N: u64 = 1 << 40;
/// `n` of a terminal event that was made up.
const END_N: u64 = 1 << 48;

/// Where a reader stands that waits for the end only.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Standing {
    /// Last event it has, with its number; `None` = nothing yet.
    pub(super) last: Option<(EventId, u64)>,
    /// What is open for it; `None` = not known.
    pub(super) open: Option<OpenItems>,
    /// Whether events may be missing between the last one and the end.
    pub(super) has_hole: bool,
    /// How many events of the prelude it has (a cursor `0-<n>`).
    pub(super) prelude_seen: u64,
}

/// Whether a cursor is that of a terminal event that was made up: nothing follows it.
pub(super) fn is_rebuilt_end(id: EventId) -> bool {
    id.n == END_N
}

/// The frames that bring a reader from `standing` to the end that `row` states; `None` where that would hide a hole.
///
/// Also `None` for a row that has not ended.
pub(super) fn rebuilt(row: &TaskRow, standing: &Standing) -> Option<Arc<[Arc<Frame>]>> {
    let terminal = row.terminal_event()?;
    let attempt = u64::from(row.attempt).max(standing.last.map_or(0, |(id, _)| id.attempt)).max(1);
    let end = EventId { attempt, n: END_N };
    let mut frames = Vec::new();
    match standing.last {
        None => {
            let started = Event::run_started(row.thread, row.key.task).to_json();
            let prelude = std::iter::once(started).chain(snapshot(row));
            frames.extend(prelude.zip(0..).map(|(event, seq)| Frame::new(&event, prelude_id(seq), seq)));
            let seq = frames.len() as u64;
            frames.drain(..frames.len().min(usize::try_from(standing.prelude_seen).unwrap_or(usize::MAX)));
            frames.push(Frame::new(&terminal, end, seq));
        }
        Some((_, last)) => {
            let is_error = terminal.starts_with(r#"{"type":"RUN_ERROR""#);
            let mut events = Vec::new();
            // RUN_ERROR closes everything by itself, and claims nothing about what was said.
            if !is_error {
                let open = standing.open.as_ref()?;
                events = open.closers();
                if standing.has_hole || !open.is_empty() {
                    events.extend(snapshot(row));
                }
            }
            let before = events.len() as u64;
            let numbered = events.iter().zip(0..);
            frames.extend(
                numbered.map(|(event, i)| Frame::new(event, EventId { attempt, n: REBUILT_N + i }, last + 1 + i)),
            );
            frames.push(Frame::new(&terminal, end, last + 1 + before));
        }
    }
    Some(frames.into())
}

/// RUN_STARTED for a stream whose first event is RUN_FINISHED: the run was stopped before it began, and the protocol
/// wants a start before an end.
pub(super) fn start_of_unstarted(event: &str) -> Option<Arc<Frame>> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Finished {
        thread_id: ThreadId,
        run_id: TaskId,
    }
    if !event.starts_with(r#"{"type":"RUN_FINISHED""#) {
        return None;
    }
    let finished: Finished = serde_json::from_str(event).ok()?;
    Some(Frame::new(&Event::run_started(finished.thread_id, finished.run_id).to_json(), prelude_id(0), 0))
}

fn prelude_id(seq: u64) -> EventId {
    EventId { attempt: 0, n: seq + 1 }
}

/// The conversation with the answer as MESSAGES_SNAPSHOT; nothing where there is no answer.
fn snapshot(row: &TaskRow) -> Option<String> {
    let result = row.result.as_ref()?;
    let answer = result.get("text").and_then(Value::as_str).map_or_else(|| result.to_string(), str::to_owned);
    let named = result.get("message_id").and_then(Value::as_str).map(str::to_owned);
    let id = named.unwrap_or_else(|| format!("{}-result", row.key.task));
    // A spec that this version cannot read leaves the answer alone.
    let mut messages = match row.spec().ok().map(|spec| spec.input) {
        Some(Input::Messages(messages)) => messages,
        // The worker names the message of a text the same way.
        Some(Input::Text(text)) => {
            vec![Message::User { id: format!("{}-input", row.key.task), content: Content::Text(text) }]
        }
        None => Vec::new(),
    };
    messages.push(Message::Assistant { id, content: Some(answer), tool_calls: Vec::new() });
    let messages = messages.iter().filter_map(|message| serde_json::to_value(message).ok()).collect();
    Some(Event::MessagesSnapshot { messages }.to_json())
}
