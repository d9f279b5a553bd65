//! Where a task is in Redis: the status letters of the records.

/// State of a task as Redis has it; what it means to people is the row's status in MySQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Registered by a door that has not committed yet (A).
    Registered,
    /// In its tenant's line (W).
    InLine,
    /// Waits for another task of its thread (H).
    Held,
    /// Waits for the quarantine lane (Q).
    Quarantined,
    /// Put aside: its agent is paused (P).
    Parked,
    /// Waits for a time (D).
    Delayed,
    /// Handed to an idle slot, not started (R).
    HandedOut,
    /// Runs under a lease (X).
    Running,
    /// Ended a moment ago (F).
    Ended,
}

impl State {
    pub(crate) fn from_letter(letter: &str) -> Option<Self> {
        match letter {
            "A" => Some(Self::Registered),
            "W" => Some(Self::InLine),
            "H" => Some(Self::Held),
            "Q" => Some(Self::Quarantined),
            "P" => Some(Self::Parked),
            "D" => Some(Self::Delayed),
            "R" => Some(Self::HandedOut),
            "X" => Some(Self::Running),
            "F" => Some(Self::Ended),
            _ => None,
        }
    }
}
