//! One event as readers get it: framed once, shared by every reader of its task.

use std::sync::Arc;

use axum::extract::ws::Utf8Bytes;
use penstock_protocol::EventId;
use penstock_protocol::event::{is_terminal_json, with_cursor};

/// An event with its cursor in `metadata.penstock`, ready for the wire.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) id: EventId,
    pub(super) seq: u64,
    /// JSON, one line.
    pub(super) text: Utf8Bytes,
    /// Whether the reader ends after it.
    pub(super) is_terminal: bool,
}

impl Frame {
    pub(super) fn new(event: &str, id: EventId, seq: u64) -> Arc<Self> {
        Arc::new(Self { id, seq, text: with_cursor(event, id, seq).into(), is_terminal: is_terminal_json(event) })
    }
}
