//! How a reader ends, and the WebSocket close codes that say so. `docs/events.md` explains them to clients.

use axum::extract::ws::{CloseCode, CloseFrame, Utf8Bytes};
use prometheus_client::encoding::{EncodeLabelValue, LabelValueEncoder};

/// Why nothing more comes. Only `Done` means that the run has ended; after every other one a client asks again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum End {
    /// The terminal event was sent.
    Done,
    /// The process stops; another one serves the same cursor.
    Restart,
    /// The key was revoked or expired.
    Unauthenticated,
    /// There is no such task, and none came within `events.unknown_task_wait_ms`.
    Unknown,
    /// The reader was slower than its task for more than `events.reader_bytes_max`.
    Slow,
    /// The events after the cursor cannot be served without a hole.
    CursorGone,
    /// The key has as many readers as it may.
    TooMany,
    /// The client broke the framing.
    Malformed,
    /// The client went, or stopped answering pings.
    Left,
}

impl End {
    /// The close code on a WebSocket; `Left` is never sent.
    pub(super) fn code(self) -> CloseCode {
        match self {
            Self::Done => 1000,
            Self::Left => 1001,
            Self::Malformed => 1008,
            Self::Restart => 1012,
            Self::Unauthenticated => 4401,
            Self::Unknown => 4404,
            Self::Slow => 4408,
            Self::CursorGone => 4409,
            Self::TooMany => 4429,
        }
    }

    /// A word for people, in the close frame.
    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Left => "gone",
            Self::Malformed => "frame not understood",
            Self::Restart => "restarting, come back with your cursor",
            Self::Unauthenticated => "key no longer valid",
            Self::Unknown => "no such task",
            Self::Slow => "reader too slow, come back with your cursor",
            Self::CursorGone => "cursor cannot be served, read without it",
            Self::TooMany => "too many sockets for this key",
        }
    }

    pub(super) fn close_frame(self) -> CloseFrame {
        CloseFrame { code: self.code(), reason: Utf8Bytes::from_static(self.reason()) }
    }

    fn label(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Restart => "restart",
            Self::Unauthenticated => "unauthenticated",
            Self::Unknown => "unknown",
            Self::Slow => "slow",
            Self::CursorGone => "cursor_gone",
            Self::TooMany => "too_many",
            Self::Malformed => "malformed",
            Self::Left => "left",
        }
    }
}

impl EncodeLabelValue for End {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), std::fmt::Error> {
        EncodeLabelValue::encode(&self.label(), encoder)
    }
}
