//! Reason codes of failed runs: the `code` of RUN_ERROR and of a task's `error`. One closed list, prefix `penstock.`.

use serde::{Deserialize, Serialize};

/// Why a run ended in RUN_ERROR.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
pub enum ErrorCode {
    /// The deadline passed before or while it ran.
    #[serde(rename = "penstock.deadline")]
    Deadline,
    /// Too many workers were lost, or attempts failed, while running it.
    #[serde(rename = "penstock.attempts_exhausted")]
    AttemptsExhausted,
    /// The provider answered with an error that a retry does not mend.
    #[serde(rename = "penstock.provider_error")]
    ProviderError,
    /// No exit of the model chain could serve.
    #[serde(rename = "penstock.all_exits_down")]
    AllExitsDown,
    /// The agent named by the task is not in the settings of the worker.
    #[serde(rename = "penstock.unknown_agent")]
    UnknownAgent,
    /// A limit of the agent (turns, tokens, seconds) was reached.
    #[serde(rename = "penstock.limit_reached")]
    LimitReached,
    /// A fault of Penstock itself.
    #[serde(rename = "penstock.internal")]
    Internal,
}

impl ErrorCode {
    /// Every code, for documentation and parsing.
    pub const ALL: [Self; 7] = [
        Self::Deadline,
        Self::AttemptsExhausted,
        Self::ProviderError,
        Self::AllExitsDown,
        Self::UnknownAgent,
        Self::LimitReached,
        Self::Internal,
    ];

    /// The text on the wire and in MySQL.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Deadline => "penstock.deadline",
            Self::AttemptsExhausted => "penstock.attempts_exhausted",
            Self::ProviderError => "penstock.provider_error",
            Self::AllExitsDown => "penstock.all_exits_down",
            Self::UnknownAgent => "penstock.unknown_agent",
            Self::LimitReached => "penstock.limit_reached",
            Self::Internal => "penstock.internal",
        }
    }

    /// Reads a stored code; an unknown one (written by a newer version) reads as internal.
    #[must_use]
    pub fn from_stored(text: &str) -> Self {
        Self::ALL.into_iter().find(|code| code.as_str() == text).unwrap_or(Self::Internal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stored_text_is_the_wire_text() {
        for code in ErrorCode::ALL {
            assert_eq!(serde_json::to_value(code).unwrap(), code.as_str());
            assert_eq!(ErrorCode::from_stored(code.as_str()), code);
        }
    }
}
