//! What the queue said of a submitted task.

use prometheus_client::encoding::{EncodeLabelValue, LabelValueEncoder};

/// One verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// It may wait.
    Admitted,
    /// The same task was seen before.
    Seen,
    /// Another door is storing it.
    Pending,
    /// The id has another body.
    Differs,
    /// The queue is full.
    Full,
    /// The tenant's share is full.
    TenantFull,
    /// Too many live tasks.
    LiveLimit,
    /// Another task of its thread has not ended.
    ThreadBusy,
    /// The predicted wait is too long.
    WaitTooLong,
    /// The queue is being rebuilt.
    Rebuilding,
    /// Redis did not answer.
    NoAnswer,
}

impl EncodeLabelValue for Verdict {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), std::fmt::Error> {
        let text = match self {
            Self::Admitted => "admitted",
            Self::Seen => "seen",
            Self::Pending => "pending",
            Self::Differs => "differs",
            Self::Full => "full",
            Self::TenantFull => "tenant_full",
            Self::LiveLimit => "live_limit",
            Self::ThreadBusy => "thread_busy",
            Self::WaitTooLong => "wait_too_long",
            Self::Rebuilding => "rebuilding",
            Self::NoAnswer => "no_answer",
        };
        super::write_label(text, encoder)
    }
}
