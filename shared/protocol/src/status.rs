//! The status machine of a task, as stored in MySQL and shown to clients.

use serde::{Deserialize, Serialize};

/// `queued → running → succeeded | failed | cancelled | expired`, `running → queued`, `running → paused → queued`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Accepted; waits for a worker.
    Queued,
    /// An attempt has claimed it.
    Running,
    /// Waits for a person.
    Paused,
    /// Ended with a result.
    Succeeded,
    /// Ended by an error.
    Failed,
    /// Ended by its caller.
    Cancelled,
    /// Its deadline passed before a worker was free.
    Expired,
}

impl Status {
    /// Whether nothing can change the status any more.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Cancelled | Self::Expired)
    }

    /// The name in the MySQL column and in the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Expired => "expired",
        }
    }

    /// Reads a stored name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Queued, Self::Running, Self::Paused, Self::Succeeded, Self::Failed, Self::Cancelled, Self::Expired]
            .into_iter()
            .find(|status| status.as_str() == name)
    }
}
